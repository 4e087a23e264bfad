//! A small model, its config and its gradients.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor};
use millstream::config::SpecialTokens;
use millstream_train::config::{ModelConfig, RunConfig, TrainConfig};
use millstream_train::{Export, WeightDtype};

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

/// The values of each parameter, by its path.
pub(crate) fn parameters(model: &impl Module) -> Vec<(String, Vec<f32>)> {
    #[derive(Default)]
    struct Values(Vec<String>, Vec<(String, Vec<f32>)>);
    impl ModuleVisitor for Values {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let values = param.val().inner().into_data().try_to_vec::<f32>().expect("f32");
            self.1.push((self.0.join("."), values));
        }
    }
    let mut values = Values::default();
    model.visit(&mut values);
    values.1
}

/// The values of all parameters, one after the other.
pub(crate) fn weights(model: &impl Module) -> Vec<f32> {
    parameters(model).into_iter().flat_map(|(_, values)| values).collect()
}

/// An export of a model of rows of `seq_len` ids: its weights as they are, in one file, without a tokenizer.
pub(crate) fn export(config: &ModelConfig, seq_len: usize) -> Export<'_> {
    Export {
        config,
        seq_len,
        tokenizer: None,
        special_tokens: SpecialTokens::Text,
        begin: None,
        end: None,
        ends: &[],
        chat_template: None,
        chat_tokens: &[],
        card: "# A model\n",
        origin: None,
        dtype: WeightDtype::F32,
        shard_bytes: u64::MAX,
    }
}

/// The gradient of every parameter that has one, in the model's order.
pub(crate) fn each(model: &impl Module, gradients: &GradientsParams) -> Vec<Vec<f32>> {
    struct Each<'a>(&'a GradientsParams, Vec<Vec<f32>>);
    impl ModuleVisitor for Each<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = self.0.get::<D>(param.id) else { return };
            self.1.push(values(gradient.cast(DType::F32)));
        }
    }
    let mut each = Each(gradients, Vec::new());
    model.visit(&mut each);
    each.1
}

/// The same, one after the other.
pub(crate) fn flat(model: &impl Module, gradients: &GradientsParams) -> Vec<f32> {
    each(model, gradients).concat()
}
