//! Settings over a config file: `--set KEY=VALUE`.

use millstream::config::OnError;

use super::load;

const TWO: &str = r#"
[[source]]
name = "docs"
paths = "a.txt"
[[source]]
name = "web"
paths = ["b.txt", "c.txt"]
epochs = 3
on_error = { skip = 5 }
[tokenizer]
path = "tokenizer.json"
eos = "</s>"
[store]
deadline = "2s"
timeout = 1.5
"#;

#[test]
fn a_source_is_reached_by_its_name_and_by_its_number() {
    let config = load("c.toml", TWO, &["source.web.split=1MiB", "source.0.split=2MiB"]).expect("it loads");
    assert_eq!(config.data.sources[1].split.expect("a length").0, 1 << 20);
    assert_eq!(config.data.sources[0].split.expect("a length").0, 2 << 20);
    assert_eq!(config.data.sources[0].paths, ["a.txt"]);
    let config = load("c.toml", TWO, &["source.docs.paths=d.txt"]).expect("it loads");
    assert_eq!(config.data.sources[0].paths, ["d.txt"]);
    assert_eq!(
        load("c.toml", TWO, &["source.dosc.split=1"]),
        Err("--set source.dosc.split=1: source.dosc.split: `dosc` is not in the list: it has 2 elements, counted \
             from 0; they are called `docs`, `web`"
            .to_owned())
    );
    assert_eq!(
        load("c.toml", TWO, &["source.3.kind=text"]).expect_err("no such source").split(": ").nth(1),
        Some("source.3.kind")
    );
}

#[test]
fn a_setting_without_a_value_unsets_its_key() {
    let unset =
        ["source.web.epochs=", "source.web.on_error=", "tokenizer.path =", "tokenizer.eos=", "store="];
    let config = load("c.toml", TWO, &unset).expect("it loads");
    assert_eq!((config.data.sources[1].epochs, config.data.sources[1].on_error), (None, OnError::Fail));
    assert_eq!((config.data.tokenizer.path, config.data.tokenizer.eos), (None, None));
    assert_eq!(config.data.store, Default::default());
    // What is not set can be unset, and set again; text can be empty.
    let settings =
        ["model.layers=", "train.prompt=", "train.steps=", "train.steps=3", "tokenizer.train.sample="];
    let config = load("c.toml", TWO, &settings).expect("it loads");
    assert_eq!((config.train.steps, &*config.train.prompt), (3, ""));
    for (setting, said) in [
        ("tokenizer.pth=", "unknown key `pth`; did you mean `path`?"),
        ("tokenizr.path=", "unknown key `tokenizr`; did you mean `tokenizer`?"),
        ("source.web=", "only keys can be unset; set the whole list"),
    ] {
        let refused = load("c.toml", TWO, &[setting]).expect_err("a mistake");
        assert!(refused.starts_with(&format!("--set {setting}: ")) && refused.ends_with(said), "{refused}");
    }
}

#[test]
fn a_wrong_setting_is_named_instead_of_the_file() {
    for (setting, said) in [
        (
            "train.steps",
            "--set train.steps: a setting is key=value, such as train.steps=100, or key= to unset a key",
        ),
        (
            "pipeline.batch_size=eight",
            "--set pipeline.batch_size=eight: `pipeline.batch_size` must be a whole number of at least 0, not \"eight\"",
        ),
        (
            "train.batch_size=8",
            "--set train.batch_size=8: train.batch_size: unknown key `batch_size`; it is `pipeline.batch_size`",
        ),
        (
            "pipelin.lanes=8",
            "--set pipelin.lanes=8: pipelin: unknown key `pipelin`; did you mean `pipeline`?",
        ),
        ("train.steps=0", "--set train.steps=0: `train.steps` must be at least 1, not 0"),
        ("seed.x=1", "--set seed.x=1: seed.x: `x` cannot be set in 7"),
    ] {
        let text = format!("seed = 7\n{TWO}");
        assert_eq!(load("c.toml", &text, &[setting]).expect_err("a mistake"), said);
    }
    // What the file says wrong stays the file's.
    let text = TWO.replace("epochs = 3", "epochs = 0");
    let said = load("c.toml", &text, &["source.1.split=1MiB", "model.layers=2"]).expect_err("a mistake");
    assert!(said.starts_with("c.toml:8:1: `source.1.epochs` must be "), "{said}");
}

#[test]
fn durations_are_seconds_or_have_units() {
    let config = load("c.toml", TWO, &["store.backoff=250ms", "store.backoff_max=1m30s"]).expect("it loads");
    assert_eq!((config.data.store.deadline, config.data.store.timeout), (2.0, 1.5));
    assert_eq!((config.data.store.backoff, config.data.store.backoff_max), (0.25, 90.0));
    assert_eq!(
        load("c.toml", &TWO.replace("2s", "a while"), &[]),
        Err("c.toml:14:1: `store.deadline` must be a duration, such as 30 (seconds), \"500ms\", \"2s\", \"5min\" or \
             \"1h30m\", not \"a while\""
            .to_owned())
    );
    assert_eq!(
        load("c.toml", &TWO.replace("2s", "2d"), &[]),
        Err("c.toml:14:1: `store.deadline` must be above 0 and at most 86400 seconds, a day, not 172800"
            .to_owned())
    );
}
