//! The origin of a shard directory's tokens: `manifest.json`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ShardPlace;
use crate::config::{ChatConfig, OnError, SourceConfig, Task};
use crate::cursor::is_zero;
use crate::error::{Error, Result, Unit};
use crate::files::{File, Location, are_same_or_moved};
use crate::segment::IdsOrigin;

pub(crate) const MANIFEST: &str = "manifest.json";

const FORMAT: u32 = 1;

/// The bound on its length, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// A source, its files, where they are cut, and the tokenizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    /// The tokenizer's fingerprint, and one more than its largest id.
    pub(crate) tokenizer: String,
    pub(crate) vocab_size: usize,
    /// What the texts depend on that records were rendered to, such as the chat template; `None` for plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rendering: Option<String>,
    /// How many ids a row had for one record, if records were fitted into rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) row_ids: Option<usize>,
    /// The source, as in its config.
    pub(crate) source: SourceConfig,
    pub(crate) files: Vec<ShardedFile>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardedFile {
    #[serde(with = "crate::files::lossless")]
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    pub(crate) unit: Unit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    pub(crate) cut: Cut,
    /// About how many bytes a split of it took in memory while its text was read, if that was many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) held: u64,
    /// The number of its root within the source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) root: u32,
}

/// Where a file is cut into splits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cut {
    /// Nowhere.
    Whole,
    /// After every so many bytes of text.
    Even(u64),
    /// Before these places.
    At(Vec<u64>),
    /// Before these places, where documents of text begin.
    Documents(Vec<u64>),
}

impl Manifest {
    pub(crate) fn new(
        tokenizer: String,
        vocab_size: usize,
        source: SourceConfig,
        files: Vec<ShardedFile>,
    ) -> Self {
        let source = SourceConfig { cache: None, ..source };
        Self { format: FORMAT, tokenizer, vocab_size, rendering: None, row_ids: None, source, files }
    }

    pub(crate) fn load(place: &ShardPlace) -> Result<Self> {
        let path = place.of(MANIFEST);
        let refuse = |what: String| Error::Corpus {
            problem: format!(
                "{}: this is not a manifest of token shards: {what}; prepare into an empty directory",
                path.display()
            ),
        };
        let text = place.read(MANIFEST, MOST_BYTES)?.ok_or_else(|| {
            let (place, what) = match place {
                ShardPlace::Directory(directory) if !directory.exists() => (directory, "no such directory"),
                _ => (&path, "no manifest of token shards"),
            };
            let problem =
                format!("{}: there is {what}; name a directory of prepared shards", place.display());
            Error::Corpus { problem }
        })?;
        let manifest: Self = serde_json::from_slice(&text).map_err(|e| refuse(e.to_string()))?;
        if manifest.format != FORMAT {
            return Err(refuse(format!(
                "its format is {}, but this version reads {FORMAT}",
                manifest.format
            )));
        }
        for ShardedFile { cut, .. } in &manifest.files {
            let is_cut = match cut {
                Cut::Whole => true,
                Cut::Even(split_size) => *split_size > 0,
                Cut::At(places) | Cut::Documents(places) => {
                    places.first() != Some(&0) && places.is_sorted_by(|a, b| a < b)
                }
            };
            if !is_cut {
                return Err(refuse("a file is cut at an impossible place".to_owned()));
            }
        }
        Ok(manifest)
    }

    /// Whether a directory on this machine has a manifest.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join(MANIFEST).exists()
    }

    /// A digest of the origin of the tokens, which each segment has too. It is BLAKE3 of the manifest without fields
    /// that do not affect the tokens, and without the cuts and others that follow from the rest.
    pub(crate) fn identity(&self) -> [u8; 32] {
        let Self { format, tokenizer, vocab_size, rendering, row_ids, files, source: _ } = self;
        let mut hasher = blake3::Hasher::new();
        let settings = (format, tokenizer, vocab_size, rendering, row_ids, self.plain_source());
        hasher.update(&serde_json::to_vec(&settings).unwrap_or_default());
        for ShardedFile { path, len, unit, etag, cut: _, held: _, root: _ } in files {
            let etag = etag.as_ref().map_or([].as_slice(), |etag| etag.as_bytes());
            hasher.update(&len.to_le_bytes()).update(&[*unit as u8]);
            for name in [path.as_os_str().as_encoded_bytes(), etag] {
                hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
            }
        }
        *hasher.finalize().as_bytes()
    }

    /// Whether a change of any of its files would show: local ones say when they were written, and stores a version.
    pub(crate) fn has_versions(&self) -> bool {
        let is_remote = |file: &ShardedFile| Location::named(&file.path).is_remote();
        self.files.iter().all(|file| file.etag.is_some() || !is_remote(file))
    }

    pub(crate) fn ids_origin(&self) -> IdsOrigin {
        IdsOrigin {
            tokenizer: self.tokenizer.as_str().into(),
            is_rendered: self.is_rendered(),
            columns: self.source.columns.as_slice().into(),
        }
    }

    /// Whether the texts were rendered from records.
    pub(crate) fn is_rendered(&self) -> bool {
        self.source.task != Task::Text
    }

    /// The source, without how often and how much of it is read, its policy for bad documents, and where the chat template
    /// is, whose text is part of the rendering.
    fn plain_source(&self) -> SourceConfig {
        let chat = ChatConfig { template: None, ..self.source.chat.clone() };
        SourceConfig {
            chat,
            name: None,
            weight: None,
            epochs: None,
            on_error: OnError::default(),
            zstd_window: None,
            ..self.source.clone()
        }
    }

    /// Refuses to continue `place`, which has this manifest, if `wanted` differs from it. The files may have moved with their
    /// roots.
    pub(crate) fn check(&self, wanted: &Self, place: &ShardPlace) -> Result<()> {
        // Files come first: if they differ, a learned tokenizer differs too.
        let placeless = |manifest: &Self| -> Vec<ShardedFile> {
            let file = |file: &ShardedFile| {
                let path = PathBuf::new();
                ShardedFile { path, cut: Cut::Whole, held: 0, root: 0, ..file.clone() }
            };
            manifest.files.iter().map(file).collect()
        };
        let are_there = are_same_or_moved(&self.files, &wanted.files, |file| {
            (file.root, file.path.as_os_str().as_encoded_bytes())
        });
        let settings = |manifest: &Self| SourceConfig { paths: Vec::new(), ..manifest.plain_source() };
        let cuts =
            |manifest: &Self| -> Vec<Cut> { manifest.files.iter().map(|file| file.cut.clone()).collect() };
        let differs = if !are_there || placeless(self) != placeless(wanted) {
            "other files, or files that have changed since"
        } else if cuts(self) != cuts(wanted) {
            "files that were cut otherwise (source.split), or that have changed since"
        } else if self.tokenizer != wanted.tokenizer {
            "another tokenizer"
        } else if self.source.task == wanted.source.task && self.rendering != wanted.rendering {
            "another chat template or other settings of it"
        } else if self.source.task == wanted.source.task && self.row_ids != wanted.row_ids {
            "conversations that were fitted into other rows (pipeline.pack, seq_len and ahead)"
        } else if settings(self) != settings(wanted) {
            "another [[source]]"
        } else {
            return Ok(());
        };
        let problem = format!(
            "{}: it has the tokens of {differs}; prepare into an empty directory, or put back what it was made from",
            place.path().display()
        );
        Err(Error::Corpus { problem })
    }

    /// Writes it to a directory. Returns false if a manifest is already there; that one stays.
    pub(crate) fn create(&self, place: &ShardPlace) -> Result<bool> {
        let text =
            serde_json::to_vec_pretty(self).map_err(|e| Error::io(place.path(), "write in", e.into()))?;
        place.create(MANIFEST, text)
    }

    /// A place in the file of a split, as errors name it.
    pub(crate) fn place(&self, split: u32, at: u64) -> String {
        let mut before = u64::from(split);
        let is_of = |file: &&ShardedFile| match before.checked_sub(file.splits()) {
            Some(rest) => {
                before = rest;
                false
            }
            None => true,
        };
        match self.files.iter().find(is_of) {
            Some(file) => format!("{} ({} {at})", file.path.display(), file.unit),
            None => format!("split {split}"),
        }
    }

    pub(crate) fn splits(&self) -> u64 {
        self.files.iter().map(ShardedFile::splits).sum()
    }
}

impl ShardedFile {
    /// Returns the file, as part of source `source` of a corpus.
    pub(crate) fn in_source(&self, source: usize) -> File {
        let Self { path, len, unit, etag, .. } = self.clone();
        File { location: Location::named(path), len, etag, source, unit }
    }

    pub(crate) fn splits(&self) -> u64 {
        match &self.cut {
            Cut::Whole => 1,
            Cut::Even(split_size) => self.len.div_ceil(*split_size).max(1),
            Cut::At(places) | Cut::Documents(places) => places.len() as u64 + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chats(template: &str, rendering: &str) -> Manifest {
        let mut source = SourceConfig { task: Task::Chat, ..SourceConfig::default() };
        source.chat.template = Some(template.into());
        let mut manifest = Manifest::new("bytes".to_owned(), 257, source, Vec::new());
        manifest.rendering = Some(rendering.to_owned());
        manifest
    }

    #[test]
    fn all_that_ids_depend_on_is_in_the_identity_and_places_of_templates_are_not() {
        let one = chats("a.jinja", "one");
        assert_eq!(chats("b.jinja", "one").identity(), one.identity());
        let file = |path: &str, len, etag: Option<&str>| {
            let (path, etag) = (path.into(), etag.map(str::to_owned));
            ShardedFile { path, len, unit: Unit::Byte, etag, cut: Cut::Whole, held: 0, root: 0 }
        };
        let of_file = |file| Manifest { files: vec![file], ..one.clone() };
        let others = [
            chats("a.jinja", "two"),
            Manifest { tokenizer: "other".to_owned(), ..one.clone() },
            Manifest { vocab_size: 258, ..one.clone() },
            Manifest { row_ids: Some(9), ..one.clone() },
            Manifest { source: SourceConfig::default(), ..one.clone() },
            of_file(file("a", 1, None)),
            of_file(file("b", 1, None)),
            of_file(file("a", 2, None)),
            of_file(file("a", 1, Some("x"))),
            of_file(ShardedFile { unit: Unit::Row, ..file("a", 1, None) }),
        ];
        let mut identities: Vec<_> = others.iter().chain([&one]).map(Manifest::identity).collect();
        identities.sort_unstable();
        identities.dedup();
        assert_eq!(identities.len(), others.len() + 1);
        let cut = ShardedFile { cut: Cut::Even(1), held: 9, root: 1, ..file("a", 1, None) };
        assert_eq!(of_file(cut).identity(), others[5].identity());
    }

    #[test]
    fn plain_text_has_no_rendering() {
        let text = Manifest::new("bytes".to_owned(), 257, SourceConfig::default(), Vec::new());
        assert!(!text.ids_origin().is_rendered);
        let written = serde_json::to_string(&text).expect("JSON");
        assert!(!written.contains("rendering"), "{written}");
        let rendered = chats("a.jinja", "one");
        let error =
            rendered.check(&text, &ShardPlace::Directory("shards".into())).expect_err("another").to_string();
        assert!(error.contains("another [[source]]"), "{error}");
        let read: Manifest =
            serde_json::from_str(&serde_json::to_string(&rendered).expect("JSON")).expect("a manifest");
        assert_eq!(read, rendered);
    }
}
