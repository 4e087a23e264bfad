//! The origin and the rules of rows: `rows.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::width_of;
use crate::config::{OnError, PackRule, ShuffleRule, SourceConfig};
use crate::cursor::is_zero;
use crate::error::{Error, Result, Unit};
use crate::files::{File, Location, are_same_or_moved};
use crate::segment::Width;
use crate::shards::{ShardPlace, StoredSplit};
use crate::tokenizer::name_of;

/// The name of the file.
pub(crate) const ROW_MANIFEST: &str = "rows.json";

/// The version of the format.
const FORMAT: u32 = 1;

/// The bound on its length, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// The rules of the rows, their order, and the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowManifest {
    format: u32,
    pub(crate) rules: RowRules,
    order: RowOrder,
    /// The source, as in its config.
    source: SourceConfig,
    pub(crate) files: Vec<RowFile>,
}

/// The settings that rows fix for their readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowRules {
    /// The tokenizer's fingerprint, and one more than its largest id.
    pub(crate) tokenizer: String,
    pub(crate) vocab_size: usize,
    pub(crate) bos: Option<String>,
    pub(crate) eos: Option<String>,
    pub(crate) seq_len: usize,
    pub(crate) ahead: usize,
    pub(crate) pack: PackRule,
    pub(crate) max_segments: Option<usize>,
    /// How many documents were placed together; only for best fit.
    pub(crate) pack_window: Option<usize>,
    /// As text: a reader of JSON may change the last bit of a number, and so the identity.
    #[serde(with = "exact")]
    pub(crate) holdout: f64,
}

/// The other settings that the order of the rows follows from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowOrder {
    pub(crate) seed: u64,
    pub(crate) lanes: usize,
    pub(crate) shuffle: ShuffleRule,
    /// How many documents of a lane were shuffled together; only for windows.
    pub(crate) window: Option<usize>,
    pub(crate) shuffle_splits: bool,
}

/// A file of the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowFile {
    #[serde(with = "crate::files::lossless")]
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    /// The unit of positions in it.
    pub(crate) unit: Unit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    /// The number of its root within the source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) root: u32,
}

impl RowManifest {
    pub(crate) fn new(rules: RowRules, order: RowOrder, source: &SourceConfig, files: Vec<RowFile>) -> Self {
        // How often and how much of it is read, and the policy for bad documents, change no row.
        let source = SourceConfig {
            name: None,
            weight: None,
            epochs: None,
            on_error: OnError::default(),
            cache: None,
            ..source.clone()
        };
        Self { format: FORMAT, rules, order, source, files }
    }

    pub(crate) fn load(place: &ShardPlace) -> Result<Self> {
        let path = place.of(ROW_MANIFEST);
        let refuse = |what: String| Error::Corpus {
            problem: format!(
                "{}: this does not describe rows: {what}; prepare them into an empty directory",
                path.display()
            ),
        };
        let text = place.read(ROW_MANIFEST, MOST_BYTES)?.ok_or_else(|| Error::Corpus {
            problem: format!("{}: there are no rows; name a directory of prepared rows", path.display()),
        })?;
        let manifest: Self = serde_json::from_slice(&text).map_err(|e| refuse(e.to_string()))?;
        if manifest.format != FORMAT {
            let what = format!("its format is {}, but this version reads {FORMAT}", manifest.format);
            return Err(refuse(what));
        }
        let RowRules { seq_len, ahead, holdout, .. } = manifest.rules;
        let is_possible = (1..=1 << 24).contains(&seq_len)
            && (1..=seq_len).contains(&ahead)
            && (0.0..1.0).contains(&holdout)
            && manifest.order.lanes > 0;
        if is_possible { Ok(manifest) } else { Err(refuse("its rules are impossible".to_owned())) }
    }

    /// A digest of everything that the rows follow from, which each segment has too.
    pub(crate) fn identity(&self) -> [u8; 32] {
        let files = self.files.iter().map(|file| RowFile { root: 0, ..file.clone() }).collect();
        let plain = Self { files, ..self.clone() };
        *blake3::hash(&serde_json::to_vec(&plain).unwrap_or_default()).as_bytes()
    }

    /// How many bytes an id takes.
    pub(crate) fn width(&self) -> Width {
        width_of(self.rules.vocab_size)
    }

    /// How many lanes make rows: those of training and, if documents are held out, theirs.
    pub(crate) fn lanes(&self) -> usize {
        self.order.lanes + usize::from(self.rules.holdout > 0.0)
    }

    /// Whether a lane has the documents that are held out.
    pub(crate) fn is_held_out(&self, lane: usize) -> bool {
        lane == self.order.lanes
    }

    /// Whether a segment of these tokens has whole rows, and room for their ends in its index.
    pub(crate) fn fits(&self, tokens: &StoredSplit) -> bool {
        let rows = tokens.ids() / self.rules.stride();
        tokens.ids().is_multiple_of(self.rules.stride())
            && rows.div_ceil(super::segment::ENDS) <= tokens.documents()
    }

    /// Refuses to continue `place`, which has this manifest, if `wanted` differs from it. The files may have moved with their
    /// roots.
    pub(crate) fn check(&self, wanted: &Self, place: &ShardPlace) -> Result<()> {
        let placeless = |manifest: &Self| -> Vec<RowFile> {
            let file = |file: &RowFile| RowFile { path: PathBuf::new(), root: 0, ..file.clone() };
            manifest.files.iter().map(file).collect()
        };
        let are_there = are_same_or_moved(&self.files, &wanted.files, |file| {
            (file.root, file.path.as_os_str().as_encoded_bytes())
        });
        let settings = |manifest: &Self| SourceConfig { paths: Vec::new(), ..manifest.source.clone() };
        let differs = if !are_there || placeless(self) != placeless(wanted) {
            "of other files, or of files that have changed since".to_owned()
        } else if let Some((key, was, is)) = self.rules.difference(&wanted.rules) {
            format!("with {key} {was}, and the config says {is}")
        } else if let Some((key, was, is)) = self.order.difference(&wanted.order) {
            format!("with {key} {was}, and the config says {is}")
        } else if settings(self) != settings(wanted) {
            "of another [[source]]".to_owned()
        } else {
            return Ok(());
        };
        let problem = format!(
            "{}: its rows were made {differs}; prepare into an empty directory, or put back what they were made from",
            place.path().display()
        );
        Err(Error::Corpus { problem })
    }

    /// Writes it to a directory. Returns false if a manifest is already there; that one stays.
    pub(crate) fn create(&self, place: &ShardPlace) -> Result<bool> {
        let text =
            serde_json::to_vec_pretty(self).map_err(|e| Error::io(place.path(), "write in", e.into()))?;
        place.create(ROW_MANIFEST, text)
    }
}

impl RowRules {
    /// How many ids a row has, padding included.
    pub(crate) fn stride(&self) -> usize {
        self.seq_len + self.ahead
    }

    /// The first rule that differs: its key in a config, its value here and its value there.
    pub(crate) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let text =
            |value: &Option<String>| value.as_ref().map_or("none".to_owned(), |value| format!("{value:?}"));
        let of = |rules: &Self| {
            [
                ("tokenizer", name_of(&rules.tokenizer)),
                ("tokenizer.bos", text(&rules.bos)),
                ("tokenizer.eos", text(&rules.eos)),
                ("pipeline.seq_len", rules.seq_len.to_string()),
                ("pipeline.ahead", rules.ahead.to_string()),
                ("pipeline.pack", rules.pack.to_string()),
                ("pipeline.max_segments", number(rules.max_segments)),
                ("pipeline.pack_window", number(rules.pack_window)),
                ("pipeline.holdout", rules.holdout.to_string()),
            ]
        };
        first_difference(of(self), of(other))
    }
}

impl RowOrder {
    /// The first setting that differs, as [`RowRules::difference`].
    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let of = |order: &Self| {
            [
                ("seed", order.seed.to_string()),
                ("pipeline.lanes", order.lanes.to_string()),
                ("pipeline.shuffle", order.shuffle.to_string()),
                ("pipeline.window", number(order.window)),
                ("pipeline.shuffle_splits", order.shuffle_splits.to_string()),
            ]
        };
        first_difference(of(self), of(other))
    }
}

fn number(value: Option<usize>) -> String {
    value.map_or("none".to_owned(), |value| value.to_string())
}

/// The first key whose values differ, and both values.
fn first_difference<const N: usize>(
    these: [(&'static str, String); N],
    those: [(&'static str, String); N],
) -> Option<(&'static str, String, String)> {
    let both = these.into_iter().zip(those);
    both.map(|((key, was), (_, is))| (key, was, is)).find(|(_, was, is)| was != is)
}

impl RowFile {
    /// Returns the file, as part of source `source` of a corpus.
    pub(crate) fn in_source(&self, source: usize) -> File {
        let Self { path, len, unit, etag, .. } = self.clone();
        File { location: Location::named(path), len, etag, source, unit }
    }
}

/// A number as text.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
