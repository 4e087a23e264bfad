//! Replaces the values of a model's parameters, one parameter at a time.

use std::collections::BTreeSet;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};

use crate::model::Gpt;
use millstream::error::{Error, Result};

/// Returns the model with new values, and the paths of its parameters. `values` is called with the path of each parameter
/// and the number of its values.
pub(super) fn replace(
    model: Gpt,
    values: impl FnMut(&str, usize) -> Result<Vec<f32>>,
) -> Result<(Gpt, BTreeSet<String>)> {
    let mut replace = Replace { values, path: Vec::new(), loaded: BTreeSet::new(), failed: None };
    let model = model.map(&mut replace);
    replace.failed.map_or(Ok((model, replace.loaded)), Err)
}

struct Replace<V> {
    values: V,
    path: Vec<String>,
    loaded: BTreeSet<String>,
    failed: Option<Error>,
}

impl<V: FnMut(&str, usize) -> Result<Vec<f32>>> ModuleMapper for Replace<V> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.failed.is_some() {
            return param;
        }
        let path = self.path.join(".");
        match (self.values)(&path, param.val().shape().num_elements()) {
            Ok(values) => {
                self.loaded.insert(path);
                param.map(|old| {
                    let tensor = Tensor::from_data(TensorData::new(values, old.dims()), &old.device());
                    tensor.set_require_grad(old.is_require_grad())
                })
            }
            Err(error) => {
                self.failed = Some(error);
                param
            }
        }
    }
}
