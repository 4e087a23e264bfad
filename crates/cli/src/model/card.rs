//! The model card: the model, how it was made, and how well it does.

use std::fmt::Write;

use serde::Serialize;

use millstream::config::PipelineConfig;
use millstream_train::RunConfig;
use millstream_train::checkpoint::State;
use millstream_train::config::{ModelConfig, TrainConfig};
use millstream_train::cost::Parameters;
use millstream_train::model::Gpt;

/// The part of a config that a card shows.
#[derive(Serialize)]
struct Settings<'a> {
    seed: u64,
    pipeline: &'a PipelineConfig,
    model: &'a ModelConfig,
    train: toml::Table,
}

/// How a model was trained, without its owner's paths and texts.
fn trained(train: &TrainConfig) -> toml::Table {
    let mut table = toml::Table::try_from(train).unwrap_or_default();
    table.retain(|key, _| !["out", "init", "prompt", "sample_tokens"].contains(&key));
    table
}

/// The card of a run's model, in Markdown.
pub(super) fn card(config: &RunConfig, state: &State, model: &Gpt, is_adapter: bool) -> String {
    let name = config.train.out.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
    let library = if is_adapter { "peft" } else { "transformers" };
    let mut card =
        format!("---\nlibrary_name: {library}\npipeline_tag: text-generation\n---\n\n# {name}\n\n");
    let shape = &config.model;
    let vocab = model.embedding.lazy_shape()[0];
    let adapters = config.train.lora.as_ref().map(|lora| Parameters::of_adapters(shape, lora));
    let parts = [
        ("parameters", Parameters::new(shape, vocab).total().to_string()),
        ("layers", shape.layers.to_string()),
        ("width", shape.d_model.to_string()),
        ("heads", format!("{}, {} of keys and values", shape.heads, shape.kv_heads())),
        ("longest text, in ids", config.data.pipeline.seq_len.to_string()),
        ("optimizer steps", state.step.to_string()),
        ("ids trained on", state.tokens.to_string()),
    ];
    let number = |number: f64| format!("{number:.4}");
    let figures = [
        ("training loss of the last step, in nats", state.loss.map(number)),
        ("validation loss, in nats", state.validation_loss.map(number)),
        ("validation, in bits per byte", state.bits_per_byte.map(number)),
        ("lowest validation loss, in nats", state.best_validation_loss.map(number)),
        ("validated after step", state.validation_step.map(|step| step.to_string())),
        ("hours of training", Some(format!("{:.2}", state.seconds / 3600.0))),
    ];
    card.push_str("| | |\n|---|---|\n");
    let trained_alone = [("parameters of the adapters", adapters.map(|count| count.to_string()))];
    let figures = trained_alone.into_iter().chain(figures);
    let figures = figures.filter_map(|(what, figure)| Some((what, figure?)));
    for (what, figure) in parts.into_iter().chain(figures) {
        // Writing to a string cannot fail.
        let _ = writeln!(card, "| {what} | {figure} |");
    }
    // The corpus is named by its owner, and so left out.
    let (pipeline, model, train) = (&config.data.pipeline, &config.model, trained(&config.train));
    let settings = Settings { seed: config.data.seed, pipeline, model, train };
    let settings = toml::to_string_pretty(&settings).unwrap_or_default();
    let _ = write!(
        card,
        "\nTrained by Millstream, with these settings among others:\n\n```toml\n{settings}```\n"
    );
    card
}
