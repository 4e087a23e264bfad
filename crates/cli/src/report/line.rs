//! The lines of a run's `metrics.jsonl`, read one by one.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use serde_json::Value;

use super::chart::not_a_number;
use millstream::{Error, Result};

/// Calls `visit` with the step and the object of each line of the file: a step's or a validation's. An incomplete last
/// line is left out: the run may be writing it, or a kill has cut it off. A run that has logged nothing may have no file.
pub(super) fn read(path: &Path, mut visit: impl FnMut(u64, &Value)) -> Result<()> {
    let mut reader = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        file => BufReader::new(file.map_err(|e| Error::io(path, "read", e))?),
    };
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(|e| Error::io(path, "read", e))? == 0 {
            break;
        }
        let line = serde_json::from_slice::<Value>(&bytes);
        let problem = match line.as_ref().map(|line| (line["step"].as_u64(), not_a_number(line), line)) {
            Ok((Some(step), None, line)) => {
                visit(step, line);
                continue;
            }
            Err(_) if bytes.last() != Some(&b'\n') => break,
            Ok((None, ..)) => "it has no step".to_owned(),
            Ok((_, Some(field), _)) => format!("its {field} is not a number"),
            // serde's position is in the line, and not in the file.
            Err(e) => e.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
        };
        let problem =
            format!("this is not a line of a run's metrics: {problem}; correct the line, or remove it");
        return Err(Error::config(format!("{}:{number}", path.display()), problem));
    }
    Ok(())
}
