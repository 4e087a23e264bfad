//! How well the batches are mixed, and what would mix them better.

use serde::Serialize;

use millstream::batch::Mixing;
use millstream::config::{OrAuto, PackRule};
use millstream::meter::Setting;
use millstream::{Batch, Config};

/// If more than this share of the rows share a document, the settings of the order are wrong.
const MANY: f64 = 0.05;

/// The first batches are all counted, and then one in `EVERY`: counting takes time from the loader.
const FIRST: u64 = 100;
const EVERY: u64 = 16;

/// The counts of shared documents.
#[derive(Default)]
pub(super) struct MixingSample {
    mixing: Mixing,
    batches: u64,
    /// The rows of the largest batch.
    rows: usize,
}

impl MixingSample {
    pub(super) fn add(&mut self, batch: &Batch) {
        if self.batches < FIRST || self.batches.is_multiple_of(EVERY) {
            self.mixing.add(batch);
        }
        self.batches += 1;
        self.rows = self.rows.max(batch.rows());
    }

    /// The result; `None` if no batch had documents from files. Held-out batches need not be mixed: no model learns from
    /// them.
    pub(super) fn mixed(&self, config: &Config, held_out: bool, setting: &Setting) -> Option<Mixed> {
        let shared_rows = self.mixing.shared_rows()?;
        let is_bad = shared_rows > MANY && !held_out;
        let problem = is_bad.then(|| problem(self.rows, config, setting));
        let warning =
            problem.map(|problem| format!("{:.1}% of rows share a document: {problem}", shared_rows * 100.0));
        Some(Mixed {
            documents_per_batch: self.mixing.documents_per_batch()?,
            files_per_batch: self.mixing.files_per_batch()?,
            shared_rows,
            warning,
        })
    }
}

/// How well the batches are mixed.
#[derive(Serialize)]
pub(super) struct Mixed {
    documents_per_batch: f64,
    files_per_batch: f64,
    /// The share of rows that share a document with another row of their batch, from 0 to 1.
    shared_rows: f64,
    /// What is wrong and what to do, if that share is too high.
    pub(super) warning: Option<String>,
}

impl Mixed {
    pub(super) fn line(&self) -> String {
        let Self { documents_per_batch: documents, files_per_batch: files, shared_rows, .. } = self;
        let share = shared_rows * 100.0;
        format!(
            "each batch: {documents:.1} documents of {files:.1} files; {share:.1}% of rows share a document with another row"
        )
    }
}

/// Why rows of batches of `rows` rows share documents, and what to do.
fn problem(rows: usize, config: &Config, setting: &Setting) -> String {
    let pipeline = &config.pipeline;
    let Setting { lanes, splits, .. } = *setting;
    if pipeline.batch_tokens.is_some() {
        let also = match pipeline.pack {
            PackRule::Concat => {
                ", or set pipeline.pack to \"best_fit\" or \"pad\", which cut only longer ones"
            }
            _ => "",
        };
        return format!(
            "with pipeline.batch_tokens a batch comes from one lane, and has several rows of a document that is cut; \
             raise pipeline.seq_len, so that fewer documents are cut{also}"
        );
    }
    if lanes >= rows {
        return "every row of a batch comes from another lane, so the same documents come again within a batch; \
                the corpus is too small for batches of so many rows: add text, or lower pipeline.batch_size"
            .to_owned();
    }
    // The settings of all ranks: `rows` and `lanes` are this one's.
    let (size, wished) = (pipeline.batch_size, pipeline.lanes());
    let there_are =
        if lanes == 1 { "there is 1 lane".to_owned() } else { format!("there are {lanes} lanes") };
    let remedy = match pipeline.lanes {
        OrAuto::Auto if size <= wished => {
            "a source comes in too few pieces for more lanes; the log says what helps".to_owned()
        }
        OrAuto::Fixed(_) if splits < rows => {
            "leave pipeline.lanes out: then there are as many as the files allow, and the log says what helps"
                .to_owned()
        }
        _ => format!("set pipeline.lanes to at least {size}, which is pipeline.batch_size"),
    };
    format!("a batch has {rows} rows and {there_are}, so that several rows come from one lane; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_that_of_the_cause() {
        let setting = |lanes, splits| Setting { lanes, splits, ..Setting::default() };
        let mut config = Config::default();
        let limited = problem(16, &config, &setting(1, 1));
        assert!(limited.contains("there is 1 lane,") && limited.ends_with("the log says what helps"));
        config.pipeline.lanes = OrAuto::Fixed(1);
        let few_lanes = problem(16, &config, &setting(4, 100));
        assert!(few_lanes.contains("16 rows and there are 4 lanes"), "{few_lanes}");
        assert!(few_lanes.ends_with("pipeline.lanes to at least 16, which is pipeline.batch_size"));
        let few_splits = problem(16, &config, &setting(4, 15));
        assert!(few_splits.contains("leave pipeline.lanes out"), "{few_splits}");
        // A rank has half of the rows, the lanes and the splits; the settings are those of both.
        let of_two = problem(8, &config, &setting(2, 8));
        assert!(of_two.ends_with("at least 16, which is pipeline.batch_size"), "{of_two}");

        let small = problem(16, &config, &setting(16, 1));
        assert!(small.contains("too small") && small.contains("pipeline.batch_size"), "{small}");

        let mut config = Config::default();
        config.pipeline.batch_tokens = Some(4096);
        let cut = problem(16, &config, &setting(64, 64));
        assert!(cut.contains("pipeline.seq_len") && cut.contains("pipeline.pack"), "{cut}");
        config.pipeline.pack = PackRule::Pad;
        assert!(!problem(16, &config, &setting(64, 64)).contains("pipeline.pack"));
    }
}
