//! The values of our parameters from the tensors of the Hugging Face libraries, and back.
//!
//! Their matrices are `[out, in]` and one per projection; ours are `[in, out]`, and those that read the same input lie
//! side by side.

use crate::model::shape::{Kind, Part};
use millstream::error::Result;

/// The values of a parameter, given those of each of its tensors.
pub(super) fn gather(part: &Part, mut read: impl FnMut(&str) -> Result<Vec<f32>>) -> Result<Vec<f32>> {
    let mut values = vec![0.0; part.len()];
    let width: usize = part.tensors.iter().map(|(_, shape)| shape[0]).sum();
    let mut from = 0;
    for (name, shape) in &part.tensors {
        let theirs = read(name)?;
        match part.kind {
            Kind::Table | Kind::Vector => values[from..from + theirs.len()].copy_from_slice(&theirs),
            Kind::Matrix => {
                for (row, inputs) in theirs.chunks(shape[1]).enumerate() {
                    for (column, &value) in inputs.iter().enumerate() {
                        values[column * width + from + row] = value;
                    }
                }
            }
        }
        from += shape[0];
    }
    Ok(values)
}

/// The name and the values of each tensor of a parameter, given its values.
pub(super) fn scatter<'a>(part: &'a Part, values: &[f32]) -> Vec<(&'a str, Vec<f32>)> {
    let width: usize = part.tensors.iter().map(|(_, shape)| shape[0]).sum();
    let mut from = 0;
    let mut all = Vec::new();
    for (name, shape) in &part.tensors {
        let rows = from..from + shape[0];
        let theirs = match part.kind {
            Kind::Table => values.to_vec(),
            Kind::Vector => values[rows].to_vec(),
            Kind::Matrix => {
                rows.flat_map(|row| (0..shape[1]).map(move |column| values[column * width + row])).collect()
            }
        };
        all.push((name.as_str(), theirs));
        from += shape[0];
    }
    all
}
