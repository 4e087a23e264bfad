//! Reads the tensors of `model.safetensors`, or of the files that `model.safetensors.index.json` names. Holds the place of
//! each tensor, and while one is read, its bytes and its values in f32.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use burn::tensor::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;

use super::files::{INDEX, WEIGHTS};
use crate::model::shape::{EMBEDDING, HEAD, Part};
use millstream::bounded;
use millstream::error::{Error, Result};

/// The remedy for a damaged file.
const DAMAGED: &str = "it is damaged or cut off; get it again";

const INDEX_BYTES: u64 = 64 << 20;
/// The most bytes of a header by the format.
const HEADER_BYTES: u64 = 100_000_000;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The place of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    file: usize,
    /// Its first byte in the file, and the number of its bytes.
    from: u64,
    len: u64,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl Stored {
    /// A tensor of a file whose values begin at byte `begin`.
    fn new(info: &TensorInfo, file: usize, begin: u64) -> Self {
        let (from, to) = info.data_offsets;
        let (len, shape) = ((to - from) as u64, info.shape.clone());
        Self { file, from: begin + from as u64, len, dtype: info.dtype, shape }
    }
}

/// The tensors of a directory.
#[derive(Debug)]
pub(super) struct Weights {
    files: Vec<PathBuf>,
    pub(super) tensors: BTreeMap<String, Stored>,
}

impl Weights {
    /// Reads the headers of all files.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let index = directory.join(INDEX);
        let names = match directory.join(WEIGHTS).is_file() {
            true => BTreeSet::from([WEIGHTS.to_owned()]),
            false if index.is_file() => indexed(&index)?,
            false => {
                let problem = format!(
                    "it has no {WEIGHTS} and no {INDEX}; save the model as safetensors, as save_pretrained of \
                     transformers does"
                );
                return Err(refused(directory, problem));
            }
        };
        let mut weights = Self { files: Vec::new(), tensors: BTreeMap::new() };
        for name in names {
            weights.add(directory.join(name))?;
        }
        Ok(weights)
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        let (begin, len, metadata) = header(&path)?;
        let mut end = 0;
        for (name, info) in metadata.tensors() {
            end = end.max(info.data_offsets.1 as u64);
            let stored = Stored::new(info, self.files.len(), begin);
            if self.tensors.insert(name.clone(), stored).is_some() {
                return Err(refused(&path, format!("{name} is in another of the model's files too")));
            }
        }
        if end != len {
            let problem = format!("it has {len} bytes of values, and {end} by its header: {DAMAGED}");
            return Err(refused(&path, problem));
        }
        self.files.push(path);
        Ok(())
    }

    /// Checks that the files have the tensors of these parts in their shapes, and no others.
    pub(super) fn check(&self, parts: &[Part]) -> Result<()> {
        let place = self.files.first().map_or(Path::new(WEIGHTS), PathBuf::as_path);
        let mut left: BTreeSet<&str> = self.tensors.keys().map(String::as_str).collect();
        for (name, shape) in parts.iter().flat_map(|part| &part.tensors) {
            let Some(stored) = self.tensors.get(name) else {
                let problem =
                    format!("there is no tensor {name}, which a model as config.json describes it has");
                return Err(refused(place, problem));
            };
            let path = &self.files[stored.file];
            if stored.shape != *shape {
                let problem = format!("{name} is {:?}, and should be {shape:?} by config.json", stored.shape);
                return Err(refused(path, problem));
            }
            if !matches!(stored.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                let problem = format!("{name} is {:?}; only F32, F16 and BF16 are read", stored.dtype);
                return Err(refused(path, problem));
            }
            left.remove(name.as_str());
        }
        // Files may also have a tied head, and older ones the frequencies of the rotary embedding.
        let is_known = |name: &&str| *name != HEAD && !name.ends_with("rotary_emb.inv_freq");
        match left.into_iter().find(is_known) {
            None => Ok(()),
            Some(name) => {
                let problem =
                    format!("the tensor {name} is not a part of the model that config.json describes");
                let path = self.tensors.get(name).map_or(place, |stored| &self.files[stored.file]);
                Err(refused(path, problem))
            }
        }
    }

    /// Refuses a stored head whose values are not those of the embedding, in a model that ties them.
    pub(super) fn check_tied(&self) -> Result<()> {
        let (Some(head), Some(embedding)) = (self.tensors.get(HEAD), self.tensors.get(EMBEDDING)) else {
            return Ok(());
        };
        if head.shape == embedding.shape && self.read(HEAD)? == self.read(EMBEDDING)? {
            return Ok(());
        }
        let problem = format!(
            "{HEAD} has other values than {EMBEDDING}, and config.json ties them; set tie_word_embeddings to false \
             there, if the head was trained on its own"
        );
        Err(refused(&self.files[head.file], problem))
    }

    pub(super) fn read(&self, name: &str) -> Result<Vec<f32>> {
        let Some(stored) = self.tensors.get(name) else {
            return Err(Error::Train(format!("there is no tensor {name}")));
        };
        let path = &self.files[stored.file];
        let mut bytes = vec![0; stored.len as usize];
        let mut read = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(stored.from))?;
            file.read_exact(&mut bytes)
        };
        read().map_err(|e| Error::io(path, "read the weights", e))?;
        let numbers = numbers(&bytes, stored.dtype);
        match numbers.iter().position(|number| !number.is_finite()) {
            None => Ok(numbers),
            Some(at) => {
                let problem = format!("value {at} of {name} is {}: {DAMAGED}", numbers[at]);
                Err(refused(path, problem))
            }
        }
    }
}

fn numbers(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    let halves = || bytes.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    match dtype {
        Dtype::F16 => halves().map(|half| f16::from_le_bytes(half).to_f32()).collect(),
        Dtype::BF16 => halves().map(|half| bf16::from_le_bytes(half).to_f32()).collect(),
        _ => bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect(),
    }
}

/// The names of the files in an index.
fn indexed(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = bounded::read(path, INDEX_BYTES).map_err(|e| Error::io(path, "read the index", e))?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|e| refused(path, format!("this is not an index of safetensors files: {e}")))?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    match names.iter().find(|name| !bounded::is_within(name)) {
        Some(name) => Err(refused(path, format!("it names {name:?}, which is outside of its directory"))),
        None => Ok(names),
    }
}

/// The first byte of the values in a file, the number of their bytes, and the header.
fn header(path: &Path) -> Result<(u64, u64, Metadata)> {
    let failed = |e| Error::io(path, "read the weights", e);
    // Before it is opened: opening a pipe waits for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(refused(path, "it is not a regular file".to_owned()));
    }
    let mut file = bounded::open(path).map_err(failed)?;
    let all = file.metadata().map_err(failed)?.len();
    let mut eight = [0; 8];
    let cut_off = || refused(path, format!("this is not a safetensors file, or {DAMAGED}"));
    file.read_exact(&mut eight).map_err(|_| cut_off())?;
    let len = u64::from_le_bytes(eight);
    if len > HEADER_BYTES || len > all.saturating_sub(8) {
        return Err(cut_off());
    }
    let mut header = vec![0; len as usize];
    file.read_exact(&mut header).map_err(failed)?;
    // This also checks that the tensors follow each other without gaps, each with the bytes of its shape.
    let metadata = serde_json::from_slice(&header)
        .map_err(|e| refused(path, format!("its header is not that of a safetensors file: {e}")))?;
    Ok((8 + len, all - 8 - len, metadata))
}

fn refused(path: &Path, problem: String) -> Error {
    Error::config(path.display().to_string(), problem)
}
