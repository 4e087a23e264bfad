//! Models that are not the crate's own.

use std::cell::Cell;
use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use millstream::batch::BatchBuilder;
use millstream::document::Part;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Cursor, Error, Sequence, Tokens};
use millstream_train::config::{ModelConfig, RunConfig, TrainConfig};
use millstream_train::model::Gpt;
use millstream_train::{Checkpoint, LanguageModel, Scope, Tensors, Trainer};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::small;

/// The GPT without its own gradients: what is asked of every model.
#[derive(Module, Debug)]
struct Plain {
    gpt: Gpt,
    heads: usize,
}

impl LanguageModel for Plain {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        // What stands where nothing counts is arbitrary.
        let nonsense = tensors.mask.clone().map_or(0.0, |_| 1e3);
        let losses = self.gpt.losses(tensors);
        match &tensors.mask {
            Some(mask) => losses + (mask.clone() - 1.0) * nonsense,
            None => losses,
        }
    }

    fn fingerprint(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("heads".to_owned(), self.heads.to_string())])
    }
}

fn plain(heads: usize, d_ff: usize, device: &Device) -> Plain {
    Plain { gpt: Gpt::new(&ModelConfig { heads, d_ff, ..small::shape() }, 257, 8, 7, device), heads }
}

fn config(scope: Scope) -> RunConfig {
    let mask_documents = scope == Scope::Document;
    let train =
        TrainConfig { lr: Some(1e-2), warmup: 3, steps: 200, mask_documents, ..TrainConfig::default() };
    let mut config = small::config(small::shape(), 8, train);
    config.data.seed = 7;
    config
}

/// Two rows of two documents each, the second padded.
fn batch(seed: u32) -> Batch {
    let mut builder = BatchBuilder::new(2, 0);
    for (row, len) in [(0, 5), (1, 3)] {
        let documents = [4, len].map(|len: usize| {
            let ids: Vec<u32> = (0..len as u32).map(|i| (seed * 31 + row * 17 + i * 7) % 251).collect();
            Tokens::new(ids, len)
        });
        let parts = documents.iter().map(|tokens| Part::new(tokens, 0..tokens.ids().len())).collect();
        builder.push(&Sequence::new(parts, 9));
    }
    builder.finish(Cursor::default())
}

fn values<const D: usize>(params: &GradientsParams, param: &Param<Tensor<D>>) -> Vec<f32> {
    params.get::<D>(param.id).expect("a gradient").into_data().try_to_vec().expect("f32")
}

#[test]
fn gradients_by_autodiff_of_the_losses_are_those_of_the_fused_head() {
    for scope in [Scope::Row, Scope::Document] {
        let device = Device::flex().autodiff();
        let model = plain(2, 24, &device);
        let tensors = Tensors::new(&batch(1), scope, &device);
        let (_, by_autodiff) = model.gradients(&tensors);
        let (_, fused) = model.gpt.gradients(&tensors);
        let block = &model.gpt.blocks[0];
        for param in [&model.gpt.embedding, &block.attention.qkv, &block.mlp.down] {
            let (ours, theirs) = (values(&by_autodiff, param), values(&fused, param));
            let most = theirs.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            assert!(most > 0.0);
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!((ours - theirs).abs() < 1e-4 * most, "{ours} {theirs}");
            }
        }
    }
}

#[test]
fn steps_are_those_of_the_same_model_and_go_on_to_the_bit() {
    for scope in [Scope::Row, Scope::Document] {
        let root = tempfile::tempdir().expect("a directory");
        let config = config(scope);
        let own = || {
            Trainer::with_model(&config, &ByteTokenizer, |device| plain(2, 24, device)).expect("a trainer")
        };
        let (mut ours, mut trainer) = (Trainer::new(&config, &ByteTokenizer).expect("a trainer"), own());
        for step in 0..6 {
            let expected = ours.step(&[batch(step)]).expect("a step").expect("targets");
            let found = trainer.step(&[batch(step)]).expect("a step").expect("targets");
            assert!((expected.loss - found.loss).abs() < 1e-3, "{scope:?}: {expected:?} {found:?}");
            assert_eq!(expected.tokens, found.tokens);
        }
        let path = trainer.save(root.path()).expect("saved");
        let checkpoint = Checkpoint::open(&path).expect("a checkpoint");
        let mut restored = own().restored(&checkpoint).expect("the same model");
        for step in 6..10 {
            let expected = trainer.step(&[batch(step)]).expect("a step").expect("targets");
            assert_eq!(restored.step(&[batch(step)]).expect("a step").expect("targets"), expected);
        }
    }
}

#[test]
fn a_checkpoint_of_another_shape_or_with_other_settings_is_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let trainer = |heads, d_ff| {
        let config = config(Scope::Row);
        Trainer::with_model(&config, &ByteTokenizer, |device| plain(heads, d_ff, device)).expect("a trainer")
    };
    let path = trainer(2, 24).save(root.path()).expect("saved");
    let checkpoint = Checkpoint::open(&path).expect("a checkpoint");
    for (other, field) in [(trainer(4, 24), "model.heads"), (trainer(2, 32), "model.gpt.blocks.0.mlp.down")] {
        match other.restored(&checkpoint) {
            Err(Error::Checkpoint { problem, .. }) => {
                assert!(problem.contains(&format!("`{field}`")), "{problem}")
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A model that gives one loss for each row.
#[derive(Module, Debug)]
struct Mean {
    plain: Plain,
}

impl LanguageModel for Mean {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        self.plain.losses(tensors).mean_dim(1)
    }
}

#[test]
fn losses_of_another_shape_are_refused() {
    let mean = |device: &Device| Mean { plain: plain(2, 24, device) };
    let mut trainer =
        Trainer::with_model(&config(Scope::Row), &ByteTokenizer, mean).expect("a trainer").with_parts(1);
    let refused = trainer.step(&[batch(1)]).expect_err("another shape").to_string();
    assert!(refused.contains("have the shape [2, 1], and the targets [2, 8]"), "{refused}");
    assert_eq!(trainer.state().step, 0);
}

#[test]
fn the_checkpoint_of_another_model_is_not_taken_for_the_gpt() {
    let root = tempfile::tempdir().expect("a directory");
    let config = config(Scope::Row);
    let trainer =
        Trainer::with_model(&config, &ByteTokenizer, |device| plain(2, 24, device)).expect("a trainer");
    let checkpoint = Checkpoint::open(&trainer.save(root.path()).expect("saved")).expect("a checkpoint");
    for refused in [
        checkpoint.load_model(&config, &ByteTokenizer).map(drop),
        Trainer::resume(&config, &ByteTokenizer, &checkpoint).map(drop),
    ] {
        let refused = refused.expect_err("another model").to_string();
        assert!(refused.contains("its model is not the GPT that comes with Millstream"), "{refused}");
    }
}

#[test]
fn a_model_is_loaded_as_it_was_trained_or_not_at_all() {
    let root = tempfile::tempdir().expect("a directory");
    let mut config = config(Scope::Row);
    let trainer = Trainer::new(&config, &ByteTokenizer).expect("a trainer");
    let checkpoint = Checkpoint::open(&trainer.save(root.path()).expect("saved")).expect("a checkpoint");
    checkpoint.load_model(&config, &ByteTokenizer).expect("the same model");
    config.model.rope_theta = 50.0;
    match checkpoint.load_model(&config, &ByteTokenizer) {
        Err(Error::Checkpoint { problem, .. }) => {
            assert!(problem.contains("`model.rope_theta`"), "{problem}")
        }
        other => panic!("{other:?}"),
    }
}

thread_local! {
    /// How many spans `upload` this thread has made, and how many of them are open.
    static UPLOADS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Counts the spans `upload`.
struct Uploads;

impl Subscriber for Uploads {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "upload"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        UPLOADS.set((UPLOADS.get().0 + 1, UPLOADS.get().1 + 1));
        Id::from_u64(1)
    }

    fn try_close(&self, _: Id) -> bool {
        UPLOADS.set((UPLOADS.get().0, UPLOADS.get().1 - 1));
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A model that computes only when its batch has been sent.
#[derive(Module, Debug)]
struct Sent {
    plain: Plain,
}

impl LanguageModel for Sent {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        let (made, open) = UPLOADS.get();
        assert!(made > 0 && open == 0, "{open} of {made} uploads are open while the model computes");
        self.plain.losses(tensors)
    }
}

#[test]
fn the_span_of_an_upload_ends_before_the_model_computes() {
    let sent = |device: &Device| Sent { plain: plain(2, 24, device) };
    let mut trainer =
        Trainer::with_model(&config(Scope::Row), &ByteTokenizer, sent).expect("a trainer").with_parts(1);
    tracing::subscriber::with_default(Uploads, || {
        trainer.step(&[batch(1), batch(2)]).expect("a step");
    });
    assert_eq!(UPLOADS.get(), (2, 0));
}
