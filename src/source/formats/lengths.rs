//! Records of a length (u32, little-endian) and so many bytes of text.
//!
//! A place is the offset of a record, in bytes. Held in memory: one record.

use std::sync::Arc;

use super::decode::Bound;
use super::format::{Format, Opened, Unopened};
use super::records::{Records, Stop, small_layout};
use crate::config::SourceConfig;
use crate::error::Result;
use crate::source::content::{Content, ReadEnd, packed};
use crate::source::layout::{Laid, Layout};
use crate::source::nominal::Nominal;
use crate::source::problem::{Broken, Problem};
use crate::source::window::Window;
use crate::store::Stored;

#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// `max_document_bytes` and `oversize`.
    bound: Bound,
}

impl Lengths {
    pub(super) fn new(config: &SourceConfig) -> Self {
        Self { bound: Bound::new(config) }
    }
}

impl Format for Lengths {
    fn layout(&self, file: Unopened<'_>, nominal: &Nominal) -> Result<Laid> {
        let stored = file.stored()?;
        let len = stored.len();
        match packed(&*stored)? {
            // A compressed file is one split. Others are cut between records if the source is small.
            Some(held) => Ok(Laid { layout: Layout::Whole, held }),
            None => small_layout(Box::new(self.open_file(stored)?), len, nominal),
        }
    }

    fn open(&self, file: Unopened<'_>, _: &Layout) -> Result<Opened> {
        self.open_file(file.stored()?).map(Opened::records)
    }
}

impl Lengths {
    fn open_file(&self, stored: Arc<dyn Stored>) -> Result<Open> {
        Ok(Open { bound: self.bound, content: Content::open(stored)? })
    }
}

#[derive(Debug)]
struct Open {
    bound: Bound,
    /// Plain or decompressed: that makes no difference here.
    content: Content,
}

impl Open {
    /// The length of the record at `at`; none at the end.
    fn len(&mut self, at: u64) -> Result<Result<Option<u64>, Problem>> {
        let mut head = Vec::new();
        let after = self.content.read(at, 4, &mut head)?;
        Ok(match (head[..].try_into().map(u32::from_le_bytes), after) {
            (Ok(len), _) => Ok(Some(u64::from(len))),
            (Err(_), ReadEnd::Broken(broken)) => Err(broken.into()),
            (Err(_), _) if head.is_empty() => Ok(None),
            (Err(_), _) => Err(Problem::new(0, "the file ends within a length", Broken::ANEW)),
        })
    }
}

impl Records for Open {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        let full = window.bytes.len() + room;
        let mut at = from;
        while at < end && (at == from || !window.is_full() && window.bytes.len() < full) {
            let len = match self.len(at)? {
                Ok(Some(len)) => len,
                Ok(None) => return Ok(Stop::End),
                Err(problem) => {
                    window.refuse_record(at, at, problem);
                    return Ok(Stop::End);
                }
            };
            let (mut text, next) = (Vec::new(), at + 4 + len);
            let held = self.bound.held(len);
            let after = self.content.read(at + 4, held as usize, &mut text)?;
            if (text.len() as u64) < held {
                let cut = Problem::new(0, "the file ends within a text", Broken::ANEW);
                let problem = if let ReadEnd::Broken(broken) = after { broken.into() } else { cut };
                window.refuse_record(at, at, problem);
                return Ok(Stop::End);
            }
            window.record(at, next, &text, len, 1.0);
            at = next;
        }
        Ok(Stop::At(at))
    }

    /// A cursor may be damaged: is `at` a place between records?
    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let mut place = 0;
        while place < at {
            match self.len(place)? {
                Ok(Some(len)) => place += 4 + len,
                _ => return Ok(Some("the file ends before".to_owned())),
            }
        }
        Ok((place != at).then(|| "it is within a record".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::store::Local;

    /// An open file with these texts, of which the last `cut` bytes are missing.
    fn file(texts: &[&str], cut: usize) -> Open {
        let mut bytes = Vec::new();
        for text in texts {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.truncate(bytes.len() - cut);
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&bytes).expect("it is written");
        let stored = Local::open(file.path(), bytes.len() as u64).expect("it is there");
        let format = Lengths::new(&SourceConfig::default());
        format.open_file(Arc::new(stored)).expect("it opens")
    }

    /// What a file's records are, read with room for `room` bytes at a time.
    fn read(mut records: Open, room: usize) -> (Vec<String>, Vec<String>) {
        let (mut texts, mut problems, mut at) = (Vec::new(), Vec::new(), 0);
        loop {
            let mut window = Window::default();
            let stop = records.take(at, u64::MAX, room, &mut window).expect("it is read");
            texts.push(String::from_utf8(window.bytes).expect("text"));
            let found = window.framed.into_iter().filter_map(|framed| framed.finding);
            problems.extend(found.map(|finding| format!("{finding:?}")));
            match stop {
                Stop::At(next) => at = next,
                Stop::End => return (texts, problems),
            }
        }
    }

    #[test]
    fn records_are_read_in_any_portions() {
        let texts = ["one", "", "three", "fourth"];
        for room in [1, 4, 9, 1000] {
            let (read, problems) = read(file(&texts, 0), room);
            assert_eq!((read.concat(), problems), (texts.concat(), vec![]), "{room}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_gives_what_is_whole_and_says_so() {
        for (cut, what) in [(1, "within a text"), (6, "within a text"), (8, "within a length")] {
            let (read, problems) = read(file(&["one", "fourth"], cut), 1000);
            assert_eq!(read.concat(), "one", "{cut}");
            assert!(problems.len() == 1 && problems[0].contains(what), "{cut}: {problems:?}");
        }
    }

    #[test]
    fn only_the_place_of_a_record_is_one_to_resume_at() {
        let mut file = file(&["one", "fourth"], 0);
        let problems: Vec<bool> = (0..20).map(|at| file.problem(at).expect("it is read").is_some()).collect();
        let places: Vec<usize> = (0..20).filter(|at| !problems[*at]).collect();
        assert_eq!(places, [0, 7, 17]);
    }
}
