//! A loader as burn's data loader: its epochs, its errors, its end, and a training run through burn's `Learner`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use futures::{StreamExt, TryStreamExt, stream};
use millstream::config::Config;
use millstream::loader::LoaderBuilder;
use millstream::tokenizer::ByteTokenizer;
use millstream::{Batch, Error, Loader};
use millstream_train::{BurnLoader, TensorBatcher};

use crate::support::wait::wait_for;

/// Gives the batch as it is.
struct Whole;

impl Batcher<Batch, Batch> for Whole {
    fn batch(&self, items: Vec<Batch>, _: &Device) -> Batch {
        items.into_iter().next().expect("one")
    }
}

fn config(epochs: Option<u64>) -> Config {
    let mut config = Config::default();
    (config.pipeline.seq_len, config.pipeline.epochs, config.pipeline.holdout) = (16, epochs, 0.3);
    config
}

fn builder(config: &Config) -> LoaderBuilder {
    let texts = (0..200).map(|number| format!("text {number}, {}", "and so on ".repeat(number % 5)));
    let config = config.clone().with_source(SourceConfig::texts(texts));
    Loader::builder(&config).with_tokenizer(Arc::new(ByteTokenizer))
}

fn training(epochs: Option<u64>, steps: usize) -> BurnLoader<Batch> {
    let config = config(epochs);
    BurnLoader::training(move || builder(&config), steps, Whole, &Device::default()).expect("some steps")
}

/// What the loader itself gives.
fn direct(builder: LoaderBuilder, most: usize) -> Vec<Vec<u32>> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let batches = runtime.block_on(async { builder.open().await?.take(most).try_collect::<Vec<_>>().await });
    batches.expect("no error").iter().map(|batch| batch.ids().to_vec()).collect()
}

fn epoch(loader: &dyn DataLoader<Batch>) -> Vec<Vec<u32>> {
    loader.iter().map(|batch| batch.expect("no error").ids().to_vec()).collect()
}

#[test]
fn epochs_of_training_follow_each_other_in_one_stream() {
    let expected = direct(builder(&config(None)), 21);
    let loader = training(None, 7);
    assert_eq!((loader.num_items(), loader.cursor()), (7, None));
    assert_eq!(epoch(&loader), expected[..7]);
    // The clone that burn takes shares the stream, and what was left of an epoch comes first.
    let other = loader.to_device(&Device::default());
    let mut started = other.iter();
    assert_eq!(started.progress().items_processed, 0);
    assert_eq!(started.next().expect("a batch").expect("no error").ids(), expected[7]);
    assert_eq!((started.progress().items_processed, started.progress().items_total), (1, 7));
    drop(started);
    assert_eq!(epoch(&loader), expected[8..14]);
    assert_eq!(epoch(&*other), expected[14..]);
    let cursor = loader.cursor().expect("one");
    assert_eq!(cursor.batch(), 21);
    assert_eq!(
        direct(builder(&config(None)).with_cursor(cursor), 3),
        direct(builder(&config(None)), 24)[21..]
    );
}

#[test]
fn epochs_of_validation_are_alike() {
    let held_out = || builder(&config(None)).with_held_out(true);
    let expected = direct(held_out(), usize::MAX);
    assert!(expected.len() > 3);
    for most in [2, usize::MAX] {
        let loader = BurnLoader::validation(held_out, most, Whole, &Device::default()).expect("it opens");
        let expected = &expected[..expected.len().min(most)];
        assert_eq!(loader.num_items(), expected.len());
        assert_eq!(epoch(&loader), expected);
        assert_eq!(epoch(&loader), expected);
    }
    let nothing =
        || builder(&Config { pipeline: config(None).pipeline, ..Config::default() }).with_held_out(true);
    let mut none = config(None);
    none.pipeline.holdout = 0.0;
    let none =
        BurnLoader::validation(move || builder(&none).with_held_out(true), 3, Whole, &Device::default());
    assert!(none.is_err());
    assert!(BurnLoader::validation(nothing, 0, Whole, &Device::default()).is_err());
}

#[test]
fn slices_share_out_each_epoch() {
    let whole = training(None, 7);
    let slices = [whole.slice(0, 3), whole.slice(3, 7)];
    assert_eq!(slices.each_ref().map(|slice| slice.num_items()), [3, 4]);
    for _ in 0..2 {
        let parts: Vec<_> = slices.iter().flat_map(|slice| epoch(&**slice)).collect();
        assert_eq!(parts, epoch(&whole));
    }
    assert_eq!(epoch(&*slices[1].slice(1, 9)), direct(builder(&config(None)), 7)[4..]);
}

#[test]
fn an_error_is_the_last_item_and_no_epoch_is_short() {
    let ended = training(Some(1), 10_000);
    let items: Vec<_> =
        ended.iter().map(|item| item.map(|_| ()).map_err(|error| error.to_string())).collect();
    let (last, batches) = items.split_last().expect("items");
    assert!(batches.len() > 5 && batches.iter().all(Result::is_ok));
    let error = last.as_ref().expect_err("an error");
    assert!(error.starts_with(&format!("the stream ended after {} of the 10000", batches.len())), "{error}");
    assert!(ended.iter().next().expect("an item").is_err(), "it does not begin anew");

    let config = config(None);
    let failing = BurnLoader::training(
        move || {
            builder(&config).stage("fails", |documents, _| {
                let fail = |document: millstream::Tracked<millstream::Document>| async move {
                    match document.value.position().byte {
                        0 => Err(document.value.error("it is the first", "begin elsewhere")),
                        _ => Ok(document),
                    }
                };
                documents.and_then(fail).boxed()
            })
        },
        1000,
        Whole,
        &Device::default(),
    );
    let errors: Vec<String> = failing
        .expect("it opens")
        .iter()
        .filter_map(|item| item.err().map(|error| error.to_string()))
        .collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("it is the first"), "{errors:?}");

    let unopened = BurnLoader::training(|| Loader::builder(&Config::default()), 3, Whole, &Device::default());
    assert_eq!(unopened.expect("it is not opened yet").iter().filter(Result::is_err).count(), 1);
    let zero = BurnLoader::training(|| Loader::builder(&Config::default()), 0, Whole, &Device::default());
    assert!(matches!(zero, Err(Error::Config { .. })));
}

#[test]
fn a_second_epoch_beside_the_first_is_an_error_and_no_deadlock() {
    let loader = training(None, 7);
    let mut first = loader.iter();
    assert!(first.next().expect("a batch").is_ok());
    let mut second = loader.iter();
    assert!(second.next().expect("an item").is_err());
    assert!(second.next().is_none());
    drop(second);
    assert_eq!(first.count(), 6);
}

/// The thread that burn blocks may be a runtime's, and the loader may never give another batch.
#[tokio::test]
async fn dropping_it_ends_its_tasks_wherever_it_is() {
    let alive = Arc::new(());
    let held = alive.clone();
    let config = config(None);
    let loader = BurnLoader::training(
        move || {
            let held = held.clone();
            builder(&config).stage("hangs", move |documents, _| {
                let held = held.clone();
                let hangs = stream::pending().inspect(move |_| {
                    let _ = &held;
                });
                documents.take(150).chain(hangs).boxed()
            })
        },
        10_000,
        Whole,
        &Device::default(),
    );
    let loader = loader.expect("it opens");
    let mut epoch = loader.iter();
    assert!(epoch.next().expect("a batch").is_ok());
    assert!(Arc::strong_count(&alive) > 2, "the stages are at work");
    drop(epoch);
    drop(loader);
    wait_for("the end of its tasks", || (Arc::strong_count(&alive) == 1).then_some(()));
}

#[test]
fn batches_become_tensors() {
    let config = config(None);
    let loader =
        BurnLoader::training(move || builder(&config), 2, TensorBatcher::default(), &Device::default());
    for tensors in loader.expect("it opens").iter() {
        let tensors = tensors.expect("no error");
        assert_eq!(tensors.inputs.dims(), tensors.targets.dims());
        assert_eq!(tensors.inputs.dims()[1], 16);
    }
}

/// Without a terminal: burn prints lines.
#[test]
fn the_example_trains_some_steps() {
    let mut path: PathBuf = std::env::current_exe().expect("this test's path");
    path.pop();
    path.pop();
    path.extend(["examples", "learner"]);
    let output = Command::new(&path)
        .args(["configs/tiny.toml", "4"])
        .current_dir(crate::support::root())
        .output()
        .expect("the example runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("trained on 12 batches\n"), "{}", text(&output.stdout));
}
