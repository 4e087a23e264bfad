//! How the records of a source become texts, if it has a task.
//!
//! A template is read once, when the source is opened, and all lanes share it. Conversations are measured with the
//! tokenizer once that is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::problem::Problem;
use crate::config::{SourceConfig, Task, TokenizerConfig};
use crate::error::Result;
use crate::render::{Outcome, RenderError, Renderer};
use crate::tokenizer::Encoder;

/// Renders the records of one source.
#[derive(Debug)]
pub(crate) struct Rendering {
    renderer: Renderer,
    task: Task,
    /// The seed of what is drawn.
    seed: u64,
}

impl Rendering {
    /// That of `source.<index>`; `None` for a source of plain text. It reads the template, and blocks.
    pub(crate) fn new(
        index: usize,
        source: &SourceConfig,
        tokenizer: &TokenizerConfig,
    ) -> Result<Option<Arc<Self>>> {
        if source.task == Task::Text {
            return Ok(None);
        }
        let (task, seed) = (source.task, source.drawn_seed());
        let of = |renderer| Self { renderer, task, seed };
        Ok(Renderer::new(index, source, tokenizer)?.map(|renderer| Arc::new(of(renderer))))
    }

    /// Has records fit into rows of `row_ids` ids. The first call decides.
    pub(crate) fn fit(&self, encoder: &Encoder, row_ids: usize) {
        if self.task.reads_records() {
            self.renderer.fit(encoder, row_ids);
        }
    }

    /// How many ids a row has for a record, if records are fitted into rows.
    pub(crate) fn row_ids(&self) -> Option<usize> {
        self.renderer.row_ids()
    }

    /// The names of the columns that a record of a table has, as far as the table has them, in order: the same records
    /// have the same bytes.
    pub(crate) fn columns(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.renderer.columns().into_iter().collect();
        names.into_iter().collect()
    }

    /// All that texts and their marks depend on beside the records and the rows.
    pub(crate) fn identity(&self) -> String {
        let of_renderer = self.renderer.fingerprint();
        match self.task {
            Task::Fim => format!("{of_renderer}, seed {}", self.seed),
            Task::Text | Task::Chat | Task::Completion => of_renderer,
        }
    }

    /// Renders the record at a byte of a file, which has this number in its source. Returns the outcome of each of its
    /// samples.
    pub(crate) fn render(&self, record: &str, file: u32, byte: u64) -> Result<Vec<Outcome>, Problem> {
        let rendered = self.renderer.render(record, [self.seed, u64::from(file), byte]);
        rendered.map_err(|RenderError { what, remedy }| Problem::new(0, what, remedy))
    }

    /// Why nothing is learned from in all conversations so far, if that is so.
    pub(crate) fn unlearned(&self) -> Option<String> {
        self.renderer.unlearned()
    }
}
