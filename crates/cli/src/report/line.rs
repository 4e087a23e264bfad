//! The lines of a run's `metrics.jsonl`, read one by one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use serde::Deserialize;

use millstream::{Error, Result};

/// A line of a step or a validation: each has fields that the other lacks.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Line {
    pub(super) step: u64,
    pub(super) loss: Option<f64>,
    pub(super) lr: Option<f64>,
    pub(super) grad_norm: Option<f64>,
    pub(super) tokens: Option<u64>,
    pub(super) tokens_per_second: Option<f64>,
    pub(super) wait_share: Option<f64>,
    pub(super) seconds: Option<f64>,
    pub(super) memory: Option<u64>,
    pub(super) flops_per_second: Option<f64>,
    pub(super) mfu: Option<f64>,
    pub(super) validation_loss: Option<f64>,
    pub(super) bits_per_byte: Option<f64>,
    /// By the stages' names.
    pub(super) stages: Option<BTreeMap<String, Stage>>,
    /// By the sources' names; of a step or of a validation.
    pub(super) sources: Option<BTreeMap<String, Source>>,
}

/// How a stage spent its time.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Stage {
    pub(super) busy: Option<f64>,
    pub(super) queue: Option<f64>,
}

/// The loss of one source.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Source {
    pub(super) loss: Option<f64>,
}

/// Calls `visit` with each line of the file. An incomplete last line is left out: the run may be writing it, or a kill has
/// cut it off. A run that has logged nothing may have no file.
pub(super) fn read(path: &Path, mut visit: impl FnMut(&Line)) -> Result<()> {
    let mut reader = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        file => BufReader::new(file.map_err(|e| Error::io(path, "read", e))?),
    };
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let len = reader.read_until(b'\n', &mut bytes).map_err(|e| Error::io(path, "read", e))?;
        let is_whole = bytes.last() == Some(&b'\n');
        match serde_json::from_slice(&bytes) {
            _ if len == 0 => break,
            Ok(line) => visit(&line),
            Err(_) if !is_whole => break,
            Err(e) => {
                let e = e.to_string();
                // serde's position is in the line, and not in the file.
                let e = e.split(" at line ").next().unwrap_or_default();
                let problem =
                    format!("this is not a line of a run's metrics: {e}; correct the line, or remove it");
                return Err(Error::config(format!("{}:{number}", path.display()), problem));
            }
        }
    }
    Ok(())
}
