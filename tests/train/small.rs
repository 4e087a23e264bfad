//! A small model, its config and its gradients.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use millstream_train::config::{ModelConfig, RunConfig, TrainConfig};

use crate::numbers::values;

/// A small shape.
pub(crate) fn shape() -> ModelConfig {
    ModelConfig { layers: 2, d_model: 16, heads: 2, d_ff: 24, ..ModelConfig::default() }
}

/// A config for rows of `seq_len` targets.
pub(crate) fn config(model: ModelConfig, seq_len: usize, train: TrainConfig) -> RunConfig {
    let mut config = RunConfig { model, train, ..RunConfig::default() };
    config.data.pipeline.seq_len = seq_len;
    config
}

/// A shape with grouped queries and a separate head.
pub(crate) fn grouped() -> ModelConfig {
    ModelConfig { heads: 4, kv_heads: Some(2), tied: false, ..shape() }
}

/// Every gradient, one after the other.
pub(crate) fn flat(model: &impl Module, params: &GradientsParams) -> Vec<f32> {
    struct Flat<'a>(&'a GradientsParams, Vec<f32>);
    impl ModuleVisitor for Flat<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).expect("every parameter has a gradient");
            self.1.extend(values(gradient));
        }
    }
    let mut flat = Flat(params, Vec::new());
    model.visit(&mut flat);
    flat.1
}
