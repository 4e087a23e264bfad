//! The fingerprint of a checkpoint's parameters: the model's shape, its attention in training, and its tokenizer.

use std::collections::BTreeMap;

use burn::module::{ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::config::{Projection, RunConfig};
use crate::model::LanguageModel;
use millstream::cursor::Fingerprint;
use millstream::tokenizer::Tokenizer;

/// The fingerprint of the GPT of `[model]`.
pub(crate) fn for_gpt(config: &RunConfig, tokenizer: &dyn Tokenizer) -> Fingerprint {
    let mut fields = for_training(config, tokenizer);
    if let Ok(serde_json::Value::Object(model)) = serde_json::to_value(&config.model) {
        fields.extend(model.into_iter().map(|(key, value)| (format!("model.{key}"), value.to_string())));
    }
    if let Some(lora) = &config.train.lora {
        // The dropout may change: it is no part of the model that was saved.
        let targets: Vec<&str> = lora.targets.projections().into_iter().map(Projection::name).collect();
        let keys = [
            ("rank", lora.rank.to_string()),
            ("alpha", lora.alpha.to_string()),
            ("targets", targets.join(", ")),
        ];
        fields.extend(keys.map(|(key, value)| (format!("train.lora.{key}"), value)));
    }
    Fingerprint(fields)
}

/// The fingerprint of another model: its settings, and the shapes of its parameters.
pub(crate) fn for_model<M: LanguageModel>(
    model: &M,
    config: &RunConfig,
    tokenizer: &dyn Tokenizer,
) -> Fingerprint {
    struct Shapes(Vec<String>, BTreeMap<String, String>);
    impl ModuleVisitor for Shapes {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let shape = param.lazy_shape().iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
            self.1.insert(format!("model.{}", self.0.join(".")), shape);
        }
    }
    let mut shapes = Shapes(Vec::new(), for_training(config, tokenizer));
    model.visit(&mut shapes);
    let own = model.fingerprint().into_iter().map(|(key, value)| (format!("model.{key}"), value));
    Fingerprint(shapes.1.into_iter().chain(own).collect())
}

fn for_training(config: &RunConfig, tokenizer: &dyn Tokenizer) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    if config.train.mask_documents {
        fields.insert("train.mask_documents".to_owned(), true.to_string());
    }
    fields.insert("tokenizer".to_owned(), tokenizer.fingerprint());
    fields.insert("vocabulary".to_owned(), tokenizer.vocab_size().to_string());
    fields
}
