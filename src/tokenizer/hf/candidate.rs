//! The engines that can run instead of the reference if the gate admits them, fastest first.

use std::sync::Arc;

use super::caught::caught;
use super::engine::Engine;
use super::fast::Fast;
#[cfg(feature = "fastokens")]
use super::fastokens::Fastokens;
use super::outline::Outline;
use crate::config::SpecialTokens;

pub(super) enum Candidate {
    #[cfg(feature = "fastokens")]
    Fastokens(Box<Fastokens>),
    Fast(Box<Fast>),
}

impl Candidate {
    /// Loads the engines that can run the file, or returns why the engine that reads most files cannot.
    pub(super) fn load(json: &Arc<str>, special: SpecialTokens) -> Result<Vec<Self>, String> {
        let outline = Outline::read(json)?;
        outline.check_growth()?;
        let mut candidates = Vec::new();
        #[cfg(feature = "fastokens")]
        match caught(|| Fastokens::load(json, special)) {
            Ok(engine) => candidates.push(Self::Fastokens(Box::new(engine))),
            Err(reason) => tracing::debug!(reason, "fastokens does not support this tokenizer"),
        }
        match outline.check_whole_words().and_then(|()| caught(|| Fast::load(json, special))) {
            Ok(engine) => candidates.push(Self::Fast(Box::new(engine))),
            Err(reason) if candidates.is_empty() => return Err(reason),
            Err(reason) => tracing::debug!(reason, "tokenizers 1.0 does not support this tokenizer"),
        }
        Ok(candidates)
    }

    /// Loads an engine that was admitted earlier.
    pub(super) fn admitted(json: &Arc<str>, special: SpecialTokens, engine: &Engine) -> Result<Self, String> {
        match engine {
            #[cfg(feature = "fastokens")]
            Engine::Fastokens => caught(|| Ok(Self::Fastokens(Box::new(Fastokens::load(json, special)?)))),
            Engine::Fast => caught(|| Ok(Self::Fast(Box::new(Fast::load(json, special)?)))),
            other => Err(format!("this build does not have {other}")),
        }
    }

    pub(super) fn engine(&self) -> Engine {
        match self {
            #[cfg(feature = "fastokens")]
            Self::Fastokens(_) => Engine::Fastokens,
            Self::Fast(_) => Engine::Fast,
        }
    }

    #[inline]
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        match self {
            #[cfg(feature = "fastokens")]
            Self::Fastokens(engine) => engine.encode(text, ids),
            Self::Fast(engine) => engine.encode(text, ids),
        }
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        match self {
            #[cfg(feature = "fastokens")]
            Self::Fastokens(engine) => engine.decode(ids),
            Self::Fast(engine) => engine.decode(ids),
        }
    }
}
