//! The tokenizer itself: the file, and the engine that runs it.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::candidate::Candidate;
use super::caught::caught;
use super::engine::Engine;
use super::file::File;
use super::gate;
use super::reference::Reference;
use super::running::{FastFirst, Running, fall_back};
use super::unassigned;
use super::verdicts::{self, Verdict};
use super::vocabulary::Vocabulary;
use crate::atomic::write_atomically;
use crate::config::{SpecialTokens, TokenizerConfig};
use crate::error::{Error, Result};
use crate::tokenizer::{EncodeError, Tokenizer};

/// A tokenizer that a `tokenizer.json` describes.
///
/// [`encode`](Tokenizer::encode) adds nothing around the text (the file's post-processor does not run),
/// neither truncates nor pads, whatever the file says, and starts no threads. It fails on a text that the
/// engine refuses, every time.
///
/// With [`SpecialTokens::Text`], special tokens within a text are plain text. Added tokens that the file does
/// not mark as special are part of its vocabulary and are always recognised.
pub struct HfTokenizer {
    name: String,
    pub(super) json: Arc<str>,
    pub(super) special: SpecialTokens,
    vocabulary: Vocabulary,
    running: Running,
}

impl HfTokenizer {
    /// How much of the sample [`trial`](Self::trial) reads, in bytes: about a third of a second of the
    /// reference's time.
    pub const TRIAL: usize = 1 << 20;

    /// Loads the file that a config names, a `tokenizer.json` or tiktoken's ranks, and compares the engines on the
    /// probes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `path` is not set, or if what is set for ranks does not fit the file; [`Error::Io`] if the
    /// file cannot be read; [`Error::Tokenizer`] as [`from_json`](Self::from_json) and
    /// [`ranks::to_json`](crate::tokenizer::ranks::to_json).
    pub fn open(config: &TokenizerConfig) -> Result<Self> {
        Self::gated(File::open(config)?)
    }

    /// Loads a `tokenizer.json` and compares the engines on the probes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::Tokenizer`] as [`from_json`](Self::from_json).
    pub fn from_file(path: impl AsRef<Path>, special: SpecialTokens) -> Result<Self> {
        Self::gated(File::at(path.as_ref(), special)?)
    }

    /// Loads the text of a `tokenizer.json`. Errors and warnings call it `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the reference cannot read it, or if its ids would be random (`dropout`).
    pub fn from_json(
        name: impl Into<String>,
        json: impl Into<String>,
        special: SpecialTokens,
    ) -> Result<Self> {
        Self::gated(File::of_json(name, json, special))
    }

    /// [`open`](Self::open) and [`trial`](Self::trial) in one. The gate's verdict is cached on disk: the next time,
    /// only the engine that runs is loaded.
    pub(crate) fn open_tried<S: AsRef<str>>(config: &TokenizerConfig, sample: &[S]) -> Result<Self> {
        Self::tried(File::open(config)?, sample)
    }

    /// [`from_json`](Self::from_json) and [`trial`](Self::trial) in one, as [`open_tried`](Self::open_tried).
    pub(crate) fn from_json_tried<S: AsRef<str>>(
        name: &str,
        json: String,
        special: SpecialTokens,
        sample: &[S],
    ) -> Result<Self> {
        Self::tried(File::of_json(name, json, special), sample)
    }

    fn tried<S: AsRef<str>>(file: File, sample: &[S]) -> Result<Self> {
        let Some(entry) = verdicts::entry(&file, gate::first(sample, Self::TRIAL)) else {
            let mut tokenizer = Self::gated(file)?;
            tokenizer.trial(sample);
            return Ok(tokenizer);
        };
        if let Some(known) = entry.read().and_then(|verdict| Self::known(&file, verdict)) {
            tracing::debug!(tokenizer = known.name, "the engines were compared before");
            return Ok(known);
        }
        let mut tokenizer = Self::gated(file)?;
        let engine = tokenizer.trial(sample);
        let Vocabulary { size: vocab_size, added, .. } = &tokenizer.vocabulary;
        entry.write(&Verdict { engine, vocab_size: *vocab_size, added: added.clone() });
        Ok(tokenizer)
    }

    /// The tokenizer as the gate has judged it before, without the engine that does not run. `None` if it cannot be
    /// loaded like that.
    fn known(file: &File, verdict: Verdict) -> Option<Self> {
        let File { name, json, special, .. } = file;
        let running = match verdict.engine {
            Engine::Reference { reason } => {
                fall_back(name, caught(|| Reference::load(json, *special)).ok()?, reason)
            }
            engine => {
                Running::Fast(FastFirst::new(vec![Candidate::admitted(json, *special, &engine).ok()?], None))
            }
        };
        let vocabulary = Vocabulary::known(verdict.vocab_size, verdict.added);
        Some(Self { name: name.clone(), json: json.clone(), special: *special, vocabulary, running })
    }

    /// Loads both engines and compares them on the probes.
    fn gated(file: File) -> Result<Self> {
        let File { name, json, special, is_ranks } = file;
        let failed = |problem: String| Error::tokenizer(&name, problem);
        let reference = caught(|| Reference::load(&json, special)).map_err(failed)?;
        let vocabulary = Vocabulary::new(&reference).map_err(failed)?;
        let added: Vec<String> = vocabulary.added.iter().map(|(token, _)| token.clone()).collect();
        let admitted = Candidate::load(&json, special).and_then(|engines| {
            let words = reference.words(vocabulary.size);
            gate::admit(&name, engines, &reference, gate::probes(&added, &words))
        });
        let running = match admitted {
            Ok(engines) => Running::Fast(FastFirst::new(engines, Some(Box::new(reference)))),
            Err(reason) => fall_back(&name, reference, reason),
        };
        let tokenizer = Self { name, json, special, vocabulary, running };
        if is_ranks {
            tokenizer.check_special()?;
        }
        Ok(tokenizer)
    }

    /// Checks that no text becomes a special token of ranks. In a `tokenizer.json`, special tokens are among
    /// the other tokens, and a word that is a token becomes that token, whatever the merges say. So no
    /// pattern may make one word of a special token.
    fn check_special(&self) -> Result<()> {
        if self.special == SpecialTokens::Parse {
            return Ok(());
        }
        for (token, id) in &self.vocabulary.added {
            let mut ids = Vec::new();
            self.encode(token, &mut ids).map_err(|problem| Error::tokenizer(&self.name, problem))?;
            if ids.contains(id) {
                let problem = format!(
                    "tokenizer.pattern makes one word of the special token {token:?}, so that text becomes it; give it \
                     another name, or set tokenizer.special_tokens = \"parse\""
                );
                return Err(Error::tokenizer(&self.name, problem));
            }
        }
        Ok(())
    }

    /// Compares the engines on the first [`TRIAL`](Self::TRIAL) bytes of `sample`, and returns the one that
    /// runs from now on.
    ///
    /// Call it before the first document is encoded. To get the same ids every time, pass the same documents
    /// every time: the corpus's first ones, not those that a cursor points at. It lets the reference go, so
    /// only the first call compares anything.
    pub fn trial<S: AsRef<str>>(&mut self, sample: impl IntoIterator<Item = S>) -> Engine {
        if let Running::Fast(FastFirst { engines, untried, .. }) = &mut self.running
            && let Some(reference) = untried.take()
        {
            let engines = std::mem::take(engines);
            let sample = gate::first(sample, Self::TRIAL);
            self.running = match gate::admit(&self.name, engines, &reference, sample) {
                Ok(mut engines) => {
                    engines.truncate(1);
                    Running::Fast(FastFirst::new(engines, None))
                }
                Err(reason) => fall_back(&self.name, *reference, reason),
            };
        }
        self.engine()
    }

    /// Which engine runs, and why.
    pub fn engine(&self) -> Engine {
        match &self.running {
            Running::Fast(FastFirst { engines, .. }) => engines[0].engine(),
            Running::Reference(_, reason) => Engine::Reference { reason: reason.clone() },
        }
    }

    /// Every token's spelling and id.
    fn all_ids(&self) -> HashMap<String, u32> {
        // It has been loaded before, so it can be loaded now.
        caught(|| Reference::load(&self.json, self.special))
            .map(|reference| reference.ids())
            .unwrap_or_default()
    }

    /// The file's text, as it was loaded.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Writes the file's text to `path`, as a whole or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write_atomically(path.as_ref(), self.json.as_bytes())
    }

    /// The file's path, or the name that [`from_json`](Self::from_json) was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for HfTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HfTokenizer")
            .field("name", &self.name)
            .field("vocab_size", &self.vocabulary.size)
            .field("special", &self.special)
            .field("engine", &self.engine())
            .finish_non_exhaustive()
    }
}

impl Tokenizer for HfTokenizer {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let reference = match &self.running {
            Running::Fast(FastFirst { engines, .. }) if !unassigned::has_any(text) => {
                return Ok(engines[0].encode(text, ids)?);
            }
            Running::Fast(fast) => fast.reference(&self.json, self.special)?,
            Running::Reference(reference, _) => reference,
        };
        Ok(reference.encode(text, ids).map_err(|refusal| refusal.to_string())?)
    }

    /// Special tokens are spelled out. Bytes that are not UTF-8 become U+FFFD, for example if a character's
    /// last token is missing.
    fn decode(&self, ids: &[u32]) -> String {
        let decoded = match &self.running {
            Running::Fast(FastFirst { engines, .. }) => engines[0].decode(ids),
            Running::Reference(reference, _) => reference.decode(ids),
        };
        decoded.unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the tokenizer's decoder fails; its text is left out");
            String::new()
        })
    }

    fn vocab_size(&self) -> usize {
        self.vocabulary.size
    }

    fn id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token, || self.all_ids())
    }

    /// The BLAKE3 digest of the file's text, and how special tokens are read.
    ///
    /// The engine is not part of it. The file stands for the reference's ids, and the fast engine runs only
    /// where it gives the same ids. So a cursor stays valid when a later version admits a file that this one
    /// does not. If the engines differ unnoticed, the same file and corpus still choose the same engine.
    fn fingerprint(&self) -> String {
        let mode = match self.special {
            SpecialTokens::Text => "text",
            SpecialTokens::Parse => "parse",
        };
        format!("{}/{mode}", blake3::hash(self.json.as_bytes()))
    }

    /// Searches the added tokens, or the whole vocabulary if the file has added none.
    fn nearest(&self, token: &str) -> Option<String> {
        self.vocabulary.nearest(token, || self.all_ids())
    }

    fn tokenizer_json(&self) -> Option<&str> {
        Some(&self.json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LearnConfig;
    use crate::tokenizer::hf::fast::Fast;

    /// A tokenizer that the gate would refuse, let through as if its probes had missed the fault: digits by
    /// two, which the fast engine cuts by three.
    fn past_the_gate() -> HfTokenizer {
        let config = LearnConfig { vocab_size: 300, ..LearnConfig::default() };
        let json = crate::tokenizer::learn::learn(["123 123 12 12 1234 mill mill"], &config, &[]).unwrap();
        let json = json.replace(r"\\p{N}{1,3}", r"\\p{N}{1,2}");
        let special = SpecialTokens::Text;
        let mut tokenizer = HfTokenizer::from_json("digits", json.as_str(), special).unwrap();
        assert!(matches!(tokenizer.running, Running::Reference(..)));
        tokenizer.running = Running::Fast(FastFirst::new(
            vec![Candidate::Fast(Box::new(Fast::load(&json.as_str().into(), special).unwrap()))],
            Some(Box::new(Reference::load(&json, special).unwrap())),
        ));
        tokenizer
    }

    #[test]
    fn a_document_that_differs_in_the_trial_brings_the_reference() {
        let mut tokenizer = past_the_gate();
        let before = tokenizer.fingerprint();
        let Engine::Reference { reason } = tokenizer.trial(["mill", "a mill of 12345"]) else {
            panic!("the fast engine still runs");
        };
        assert!(reason.contains("34"), "{reason}");
        assert_eq!(tokenizer.fingerprint(), before);
        let (mut ids, mut right) = (Vec::new(), Vec::new());
        tokenizer.encode("12345", &mut ids).unwrap();
        Reference::load(tokenizer.json(), SpecialTokens::Text).unwrap().encode("12345", &mut right).unwrap();
        assert_eq!(ids, right);
    }

    #[test]
    fn the_trial_ends_after_its_share() {
        let long = "mill ".repeat(HfTokenizer::TRIAL / 5);
        let mut tokenizer = past_the_gate();
        let mut read = 0;
        let sample = [long.as_str(), "m", "12345"].into_iter().inspect(|_| read += 1);
        assert_eq!(tokenizer.trial(sample), Engine::Fast);
        assert_eq!(read, 2, "nothing is read once the share is used up");
        // The reference is gone, so nothing can be compared.
        assert_eq!(tokenizer.trial(["12345"]), Engine::Fast);
        let cut = "ä".repeat(HfTokenizer::TRIAL) + "12345";
        assert_eq!(past_the_gate().trial([cut]), Engine::Fast);
    }

    #[test]
    fn one_instance_serves_many_threads() {
        let mut tokenizer = past_the_gate();
        tokenizer.trial(["mill"]);
        let texts: Vec<String> = (0..200).map(|i| format!("mill {i} mills\n").repeat(i % 7 + 1)).collect();
        let encode = |text: &String| {
            let mut ids = Vec::new();
            tokenizer.encode(text, &mut ids).unwrap();
            ids
        };
        let alone: Vec<_> = texts.iter().map(encode).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| texts.iter().map(encode).collect::<Vec<_>>())).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), alone);
            }
        });
    }
}
