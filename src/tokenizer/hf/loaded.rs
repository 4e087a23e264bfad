//! A file with the engine that runs it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::candidate::Candidate;
use super::engine::Engine;
use super::file::File;
use super::gate;
use super::running::{FastFirst, Running, fall_back};
use super::spellings::Spellings;
use super::unassigned;
use super::verdicts::{self, Verdict};
use super::vocabulary::Vocabulary;
use crate::config::SpecialTokens;
use crate::error::{Error, Result};
use crate::tokenizer::{EncodeError, Wanted};

pub(super) struct Loaded {
    pub(super) file: File,
    pub(super) vocabulary: Vocabulary,
    /// Which engine runs, and why.
    engine: Engine,
    /// It, once it is needed: token shards are read without it. Or why it cannot be loaded.
    running: OnceLock<Result<Running, String>>,
    /// The digest of the file's text, once it is asked for.
    digest: OnceLock<blake3::Hash>,
    /// What the tokens spell, once spans are asked for. `None` if that says nothing of where they stand.
    spellings: OnceLock<Option<Spellings>>,
}

impl Loaded {
    /// How much of the sample [`trial`](Self::trial) reads, in bytes.
    pub(super) const TRIAL: usize = 1 << 20;

    /// [`gated`](Self::gated) and [`trial`](Self::trial) in one. The gate's verdict is cached on disk: the next time,
    /// only the engine that runs is loaded, and that when it is needed.
    pub(super) fn tried<S: AsRef<str>>(file: File, sample: &[S]) -> Result<Self> {
        let Some(entry) = verdicts::entry(&file, gate::first(sample, Self::TRIAL)) else {
            let mut loaded = Self::gated(file)?;
            loaded.trial(sample);
            return Ok(loaded);
        };
        if let Some(Verdict { engine, vocab_size, added }) = entry.read() {
            tracing::debug!(tokenizer = file.name, "the engines were compared before");
            return Ok(Self::new(file, Vocabulary::known(vocab_size, added), engine));
        }
        let mut loaded = Self::gated(file)?;
        let engine = loaded.trial(sample);
        let Vocabulary { size: vocab_size, added, .. } = &loaded.vocabulary;
        entry.write(&Verdict { engine, vocab_size: *vocab_size, added: added.clone() });
        Ok(loaded)
    }

    /// The tokenizer as the gate has judged it before.
    fn new(file: File, vocabulary: Vocabulary, engine: Engine) -> Self {
        let (running, digest, spellings) = Default::default();
        Self { file, vocabulary, engine, running, digest, spellings }
    }

    fn with_running(self, running: Running) -> Self {
        Self { engine: running.engine(), running: Ok(running).into(), ..self }
    }

    /// The engine that runs. The first call loads it, if it is not loaded yet.
    pub(super) fn running(&self) -> Result<&Running, &str> {
        let load = || match &self.engine {
            Engine::Reference { reason } => {
                Ok(fall_back(&self.file.name, self.file.reference()?, reason.clone()))
            }
            engine => {
                let engine = Candidate::admitted(&self.file.json, self.file.special, engine)?;
                Ok(Running::Fast(FastFirst::new(vec![engine], None)))
            }
        };
        self.running.get_or_init(load).as_ref().map_err(|problem| problem.as_str())
    }

    /// Loads both engines and compares them on the probes.
    pub(super) fn gated(file: File) -> Result<Self> {
        let failed = |problem: String| Error::tokenizer(&file.name, problem);
        let reference = file.reference().map_err(failed)?;
        let vocabulary = Vocabulary::new(&reference).map_err(failed)?;
        let added: Vec<String> = vocabulary.added.iter().map(|(token, _)| token.clone()).collect();
        let admitted = Candidate::load(&file.json, file.special).and_then(|engines| {
            let words = reference.words(vocabulary.size);
            gate::admit(&file.name, engines, &reference, gate::probes(&added, &words))
        });
        let running = match admitted {
            Ok(engines) => Running::Fast(FastFirst::new(engines, Some(Box::new(reference)))),
            Err(reason) => fall_back(&file.name, reference, reason),
        };
        let loaded = Self::new(file, vocabulary, running.engine()).with_running(running);
        if loaded.file.is_ranks {
            loaded.check_special()?;
        }
        Ok(loaded)
    }

    /// The file after a change that leaves its vocabulary as it is. If the reference runs this one, it runs that one
    /// too: the trial may have found a difference that the probes do not show.
    pub(super) fn changed(&self, json: Arc<str>, special: SpecialTokens) -> Result<Self, String> {
        let file = File { json, special, is_ranks: false, ..self.file.clone() };
        let Engine::Reference { reason } = &self.engine else {
            return Self::tried::<&str>(file, &[]).map_err(|error| error.to_string());
        };
        let running = Running::Reference(Box::new(file.reference()?), reason.clone());
        let vocabulary = Vocabulary::known(self.vocabulary.size, self.vocabulary.added.clone());
        Ok(Self::new(file, vocabulary, self.engine.clone()).with_running(running))
    }

    /// Checks that no text becomes a special token of ranks. In a `tokenizer.json`, special tokens are among
    /// the other tokens, and a word that is a token becomes that token, whatever the merges say. So no
    /// pattern may make one word of a special token.
    fn check_special(&self) -> Result<()> {
        if self.file.special == SpecialTokens::Parse {
            return Ok(());
        }
        for (token, id) in &self.vocabulary.added {
            let mut ids = Vec::new();
            self.encode(token, &mut ids).map_err(|problem| Error::tokenizer(&self.file.name, problem))?;
            if ids.contains(id) {
                let problem = format!(
                    "tokenizer.pattern makes one word of the special token {token:?}, so that text becomes it; give it \
                     another name, or set tokenizer.special_tokens = \"parse\""
                );
                return Err(Error::tokenizer(&self.file.name, problem));
            }
        }
        Ok(())
    }

    /// Compares the engines on the first [`TRIAL`](Self::TRIAL) bytes of `sample`, and returns the one that runs from
    /// now on. It lets the reference go, so only the first call compares anything.
    pub(super) fn trial<S: AsRef<str>>(&mut self, sample: impl IntoIterator<Item = S>) -> Engine {
        if let Some(Ok(Running::Fast(FastFirst { engines, untried, .. }))) = self.running.get_mut()
            && let Some(reference) = untried.take()
        {
            let engines = std::mem::take(engines);
            let sample = gate::first(sample, Self::TRIAL);
            let running = match gate::admit(&self.file.name, engines, &reference, sample) {
                Ok(mut engines) => {
                    engines.truncate(1);
                    Running::Fast(FastFirst::new(engines, None))
                }
                Err(reason) => fall_back(&self.file.name, *reference, reason),
            };
            (self.engine, self.running) = (running.engine(), Ok(running).into());
        }
        self.engine()
    }

    /// Which engine runs, and why.
    pub(super) fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// The BLAKE3 digest of the file's text.
    pub(super) fn digest(&self) -> blake3::Hash {
        *self.digest.get_or_init(|| blake3::hash(self.file.json.as_bytes()))
    }

    /// Every token's spelling and id.
    fn all_ids(&self) -> HashMap<String, u32> {
        // It has been loaded before, so it can be loaded now.
        self.file.reference().map(|reference| reference.ids()).unwrap_or_default()
    }

    /// The id of a token by its exact spelling.
    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token, || self.all_ids())
    }

    /// The token that is spelled most like `token`.
    pub(super) fn nearest(&self, token: &str) -> Option<String> {
        self.vocabulary.nearest(token, || self.all_ids())
    }

    /// Appends the ids of a text.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let reference = match self.running()? {
            Running::Fast(FastFirst { engines, .. }) if !unassigned::has_any(text) => {
                return Ok(engines[0].encode(text, ids)?);
            }
            Running::Fast(fast) => fast.reference(&self.file)?,
            Running::Reference(reference, _) => reference,
        };
        Ok(reference.encode(text, ids).map_err(|refusal| refusal.to_string())?)
    }

    /// Appends the ids of a text, and the bytes that each stands for.
    ///
    /// Mostly the tokens spell the text, so that their lengths tell where each stands. Where they do not, because the
    /// text was normalized on the way, the reference's own offsets do.
    pub(super) fn encode_spans(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        wanted: Wanted<'_>,
    ) -> Result<(), EncodeError> {
        let Wanted { until, spans } = wanted;
        let reference = match self.running()? {
            Running::Fast(fast) => {
                let start = ids.len();
                self.encode(text, ids)?;
                let spellings =
                    self.spellings.get_or_init(|| Spellings::read(&self.file.json, &self.vocabulary));
                let own = ids.get(start..).unwrap_or_default();
                if spellings.as_ref().is_some_and(|spellings| spellings.spans(text, own, until, spans)) {
                    return Ok(());
                }
                ids.truncate(start);
                fast.reference(&self.file)?
            }
            Running::Reference(reference, _) => reference,
        };
        Ok(reference.encode_spans(text, ids, spans).map_err(|refusal| refusal.to_string())?)
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        match self.running()? {
            Running::Fast(FastFirst { engines, .. }) => engines[0].decode(ids),
            Running::Reference(reference, _) => reference.decode(ids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LearnConfig;
    use crate::tokenizer::hf::fast::Fast;
    use crate::tokenizer::hf::reference::Reference;

    /// A tokenizer that the gate would refuse, let through as if its probes had missed the fault: digits by
    /// two, which the fast engine cuts by three.
    fn past_the_gate() -> Loaded {
        let config = LearnConfig { vocab_size: 300, ..LearnConfig::default() };
        let json = crate::tokenizer::learn::learn(["123 123 12 12 1234 mill mill"], &config, &[]).unwrap();
        let json = json.replace(r"\\p{N}{1,3}", r"\\p{N}{1,2}");
        let special = SpecialTokens::Text;
        let mut tokenizer = Loaded::gated(File::of_json("digits", json.as_str(), special)).unwrap();
        assert!(matches!(tokenizer.engine(), Engine::Reference { .. }));
        tokenizer = tokenizer.with_running(Running::Fast(FastFirst::new(
            vec![Candidate::Fast(Box::new(Fast::load(&json.as_str().into(), special).unwrap()))],
            Some(Box::new(Reference::load(&json, special).unwrap())),
        )));
        tokenizer
    }

    #[test]
    fn a_document_that_differs_in_the_trial_brings_the_reference() {
        let mut tokenizer = past_the_gate();
        let Engine::Reference { reason } = tokenizer.trial(["mill", "a mill of 12345"]) else {
            panic!("the fast engine still runs");
        };
        assert!(reason.contains("34"), "{reason}");
        let (mut ids, mut right) = (Vec::new(), Vec::new());
        tokenizer.encode("12345", &mut ids).unwrap();
        Reference::load(&tokenizer.file.json, SpecialTokens::Text)
            .unwrap()
            .encode("12345", &mut right)
            .unwrap();
        assert_eq!(ids, right);
    }

    #[test]
    fn the_trial_ends_after_its_share() {
        let long = "mill ".repeat(Loaded::TRIAL / 5);
        let mut tokenizer = past_the_gate();
        let mut read = 0;
        let sample = [long.as_str(), "m", "12345"].into_iter().inspect(|_| read += 1);
        assert_eq!(tokenizer.trial(sample), Engine::Fast);
        assert_eq!(read, 2, "nothing is read once the share is used up");
        // The reference is gone, so nothing can be compared.
        assert_eq!(tokenizer.trial(["12345"]), Engine::Fast);
        let cut = "ä".repeat(Loaded::TRIAL) + "12345";
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
