//! Texts in memory: the documents of a source without files.
//!
//! A place is the number of a text, from 0. Held in memory, beside the texts: what is read ahead.

use super::format::{Candidate, Format, Opened, Unopened};
use super::records::{Records, Stop, take_each};
use crate::config::Texts;
use crate::error::Result;
use crate::source::carried::Metadata;
use crate::source::layout::{Laid, Layout};
use crate::source::split_size::SplitSize;
use crate::source::window::Window;

impl Format for Texts {
    fn looks_at(&self, _: Candidate) -> bool {
        true
    }

    fn layout(&self, _: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let cuts = split_size.cuts(self.bytes(), &(0..self.count()).collect::<Vec<_>>());
        Ok(Layout::between(cuts).into())
    }

    fn open(&self, _: Unopened<'_>, _: &Layout) -> Result<Opened> {
        Ok(Opened::records(self.clone()))
    }
}

impl Records for Texts {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        take_each(from, end, room, window, |at, window| {
            let Some(text) = self.get(at) else { return Ok(Stop::End) };
            if !text.trim_ascii().is_empty() {
                window.record(at, at + 1, text.as_bytes(), text.len() as u64, Metadata::default());
            }
            Ok(Stop::At(at + 1))
        })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let count = self.count();
        Ok((at > count).then(|| format!("the source has {count} texts")))
    }
}
