//! The keys of each section, and what an unknown one may have meant.

use serde::de::DeserializeOwned;

use super::bounds::{Bound, Bounded};
use super::{
    ChatConfig, Config, CsvConfig, ExcludeConfig, FimConfig, LearnConfig, MixtureConfig, PipelineConfig,
    SampleConfig, SourceConfig, StoreConfig, TokenCacheConfig, TokenizerConfig, TurnConfig,
};

/// How alike two names must be for one to be taken for the other, from 0 to 1, in one section and in different ones.
const ALIKE: f64 = 0.7;
const ALIKE_ELSEWHERE: f64 = 0.93;

/// The tables of a trainer. They stand at the top of the same file, and are no keys of a [`Config`].
pub(super) const TRAINER: [&str; 2] = ["model", "train"];

/// A table of a config.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name, with the names of those around it.
    name: &'static str,
    pub(super) keys: Vec<String>,
    /// The keys whose numbers have bounds.
    bounds: Vec<(&'static str, Bound)>,
}

impl Section {
    /// The table of a struct.
    pub fn new<T: DeserializeOwned>(name: &'static str) -> Self {
        Self { name, keys: fields::<T>(), bounds: Vec::new() }
    }

    /// The same with its bounds.
    pub fn bounded<T: DeserializeOwned + Bounded>(name: &'static str) -> Self {
        let bounds = T::BOUNDS.iter().map(|(key, bound, _)| (*key, *bound)).collect();
        Self { bounds, ..Self::new::<T>(name) }
    }
}

/// The bound of the key at this path, in which the elements of lists have their numbers.
pub(super) fn bound(path: &[String], sections: &[Section]) -> Option<Bound> {
    let names = path.iter().map(String::as_str).filter(|name| name.parse::<usize>().is_err());
    let path = names.collect::<Vec<_>>().join(".");
    let (table, key) = path.rsplit_once('.')?;
    let section = sections.iter().find(|section| section.name == table)?;
    section.bounds.iter().find(|(name, _)| *name == key).map(|(_, bound)| *bound)
}

/// What to do about the unknown key of one of the sections, whose keys are `known`.
pub(super) fn advice(key: &str, known: &[String], sections: &[Section]) -> String {
    // A letter too much or too few, or a word more.
    let is_near = |other: &&String| {
        strsim::damerau_levenshtein(key, other) == 1 || key.split('_').any(|word| word == *other)
    };
    let near = known.iter().find(is_near).map(|near| format!("did you mean `{near}`?"));
    let others = || {
        let others = sections.iter().filter(|section| section.keys != known);
        others.flat_map(|section| section.keys.iter().map(|other| (section.name, other.as_str())))
    };
    let exact: Vec<String> =
        others().filter(|(_, other)| *other == key).map(|(section, key)| dotted(section, key)).collect();
    match (near, exact.is_empty()) {
        (None, false) => return format!("it is {}", exact.join(" or ")),
        (Some(near), false) => return format!("{near} Elsewhere it is {}", exact.join(" or ")),
        (Some(near), true) => return near,
        (None, true) => {}
    }
    let here = nearest(key, known.iter().map(String::as_str), |name| name);
    let elsewhere = nearest(key, others(), |(_, name)| name);
    match (here, elsewhere) {
        (here, Some(((section, name), likeness)))
            if likeness > ALIKE_ELSEWHERE && here.is_none_or(|(_, of_here)| likeness > of_here) =>
        {
            format!("did you mean {}?", dotted(section, name))
        }
        (Some((name, likeness)), _) if likeness > ALIKE => format!("did you mean `{name}`?"),
        _ => format!("it can be {}", known.join(", ")),
    }
}

/// Asks whether a name was meant to be one of the `known` ones, if it is like one.
pub fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    let (name, _) = nearest(name, known, |name| name).filter(|(_, likeness)| *likeness > ALIKE)?;
    Some(format!("did you mean `{name}`?"))
}

/// What to do about an unknown word of a key whose words are `known`.
pub(super) fn advice_of_words(word: &str, known: &[&str]) -> String {
    match did_you_mean(word, known.iter().copied()) {
        Some(question) => question,
        None => {
            let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
            format!("it can be {}", known.join(", "))
        }
    }
}

fn nearest<'k, T: Copy>(
    key: &str,
    known: impl Iterator<Item = T>,
    name: impl Fn(T) -> &'k str,
) -> Option<(T, f64)> {
    let likeness = known.map(|of| (of, strsim::jaro_winkler(key, name(of))));
    likeness.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn dotted(section: &str, key: &str) -> String {
    match section {
        "" => format!("`{key}` at the top of the config"),
        section => format!("`{section}.{key}`"),
    }
}

/// Every section of the loader's config with its keys. The first is the top, which has the tables of a trainer too.
pub fn sections() -> Vec<Section> {
    let top = fields::<Config>().into_iter().chain(TRAINER.map(str::to_owned)).collect();
    vec![
        Section { name: "", keys: top, bounds: Vec::new() },
        Section::bounded::<SourceConfig>("source"),
        Section::new::<ChatConfig>("source.chat"),
        Section::new::<TurnConfig>("source.chat.turn"),
        Section::bounded::<FimConfig>("source.fim"),
        Section::new::<CsvConfig>("source.csv"),
        Section::bounded::<SampleConfig>("source.sample"),
        Section::bounded::<TokenCacheConfig>("source.cache"),
        Section::bounded::<MixtureConfig>("mixture"),
        Section::new::<ExcludeConfig>("exclude"),
        Section::bounded::<StoreConfig>("store"),
        Section::new::<TokenizerConfig>("tokenizer"),
        Section::bounded::<LearnConfig>("tokenizer.train"),
        Section::bounded::<PipelineConfig>("pipeline"),
    ]
}

/// The keys of a struct: serde names them where it refuses one, as in "unknown field ``, expected `path` or `limit`".
fn fields<T: DeserializeOwned>() -> Vec<String> {
    let refused = serde_json::from_str::<T>(r#"{"": 0}"#).err().map_or_else(String::new, |e| e.to_string());
    refused.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}
