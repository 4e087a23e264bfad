//! Writes a model's weights as safetensors files: one, or several with an index. Holds one parameter at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor};
use serde_json::{Map, Value, json};

use super::dtype::WeightDtype;
use super::files::{INDEX, WEIGHTS};
use super::layout::scatter;
use crate::device::reading::read;
use crate::model::Gpt;
use crate::model::shape::Part;
use millstream::atomic::write_synced;
use millstream::error::{Error, Result};

/// Writes the weights of `model` to `directory`, at most `most` bytes of weights in one file. Returns the files' names.
pub(super) fn write(
    model: &Gpt,
    parts: &[Part],
    dtype: WeightDtype,
    most: u64,
    directory: &Path,
) -> Result<Vec<String>> {
    let parameters = ModelTensors::new(model);
    let shards = shards(parts, most / dtype.size());
    let name = |shard: usize| match shards.len() {
        1 => WEIGHTS.to_owned(),
        of => format!("model-{:05}-of-{of:05}.safetensors", shard + 1),
    };
    let mut map = Map::new();
    for (number, shard) in shards.iter().enumerate() {
        save(&directory.join(name(number)), shard, dtype, &parameters)?;
        let tensors = shard.iter().flat_map(|part| &part.tensors);
        map.extend(tensors.map(|(tensor, _)| (tensor.clone(), name(number).into())));
    }
    let mut names: Vec<String> = (0..shards.len()).map(name).collect();
    if names.len() > 1 {
        let total = parts.iter().map(Part::len).sum::<usize>() as u64 * dtype.size();
        let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
        write_synced(&directory.join(INDEX), format!("{index:#}\n").as_bytes())?;
        names.push(INDEX.to_owned());
    }
    Ok(names)
}

/// Splits parts into runs of at most `most` values. A part with more values is a run alone.
fn shards(parts: &[Part], most: u64) -> Vec<&[Part]> {
    let (mut shards, mut from, mut size) = (Vec::new(), 0, 0);
    for (at, part) in parts.iter().enumerate() {
        if at > from && size + part.len() as u64 > most {
            shards.push(&parts[from..at]);
            (from, size) = (at, 0);
        }
        size += part.len() as u64;
    }
    shards.push(&parts[from..]);
    shards
}

/// Writes the tensors of some parts as one file.
pub(super) fn save(path: &Path, shard: &[Part], dtype: WeightDtype, parameters: &ModelTensors) -> Result<()> {
    let failed = |e| Error::io(path, "write the weights", e);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    file.write_all(&header(shard, dtype)).map_err(failed)?;
    for part in shard {
        for (name, values) in scatter(part, &parameters.values(&part.path)?) {
            let too_large = |value| {
                let others = if dtype == WeightDtype::F16 { "bf16 or f32" } else { "f32" };
                let dtype = dtype.in_torch();
                let problem = format!("{name} has {value:?}, which is too large for {dtype}");
                Error::Train(format!("{problem}; export it as {others}"))
            };
            let bytes = dtype.encode(&values).map_err(too_large)?;
            file.write_all(&bytes).map_err(failed)?;
        }
    }
    let file = file.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)
}

/// The bytes before the values: the length of a JSON object, and the object with the place of each tensor.
fn header(shard: &[Part], dtype: WeightDtype) -> Vec<u8> {
    let mut tensors = Map::new();
    // The layout is PyTorch's. Readers demand this entry.
    tensors.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut from = 0;
    for (name, shape) in shard.iter().flat_map(|part| &part.tensors) {
        let to = from + shape.iter().product::<usize>() as u64 * dtype.size();
        let tensor =
            json!({ "dtype": dtype.name().to_uppercase(), "shape": shape, "data_offsets": [from, to] });
        tensors.insert(name.clone(), tensor);
        from = to;
    }
    let mut json = Value::Object(tensors).to_string().into_bytes();
    // The values begin at a multiple of eight.
    json.resize(json.len().next_multiple_of(8), b' ');
    [&(json.len() as u64).to_le_bytes()[..], &json].concat()
}

/// The parameters of a model by their paths, flat and on their device.
#[derive(Default)]
pub(super) struct ModelTensors {
    path: Vec<String>,
    found: BTreeMap<String, Tensor<1>>,
}

impl ModelTensors {
    pub(super) fn new(model: &Gpt) -> Self {
        let mut parameters = Self::default();
        model.visit(&mut parameters);
        parameters
    }

    fn values(&self, path: &str) -> Result<Vec<f32>> {
        let Some(parameter) = self.found.get(path) else {
            return Err(Error::Train(format!("the model has no parameter {path}: it has another shape")));
        };
        read(parameter.clone().cast(DType::F32))
    }
}

impl ModuleVisitor for ModelTensors {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let len = tensor.shape().num_elements();
        self.found.insert(self.path.join("."), tensor.reshape([len]));
    }
}
