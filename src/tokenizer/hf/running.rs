//! The engine that runs, and its helpers.

use std::sync::OnceLock;

use super::candidate::Candidate;
use super::engine::Engine;
use super::file::File;
use super::reference::Reference;
use crate::tokenizer::EncodeError;

/// The engine that runs.
pub(super) enum Running {
    Fast(FastFirst),
    Reference(Box<Reference>, String),
}

impl Running {
    pub(super) fn engine(&self) -> Engine {
        match self {
            Self::Fast(FastFirst { engines, .. }) => engines[0].engine(),
            Self::Reference(_, reason) => Engine::Reference { reason: reason.clone() },
        }
    }
}

/// The fast engine, and the reference for the texts that it must not encode.
pub(super) struct FastFirst {
    /// The first one runs; there is always one. The others are kept for the trial.
    pub(super) engines: Vec<Candidate>,
    /// The reference that they are compared with in the trial, until then.
    pub(super) untried: Option<Box<Reference>>,
    /// Encodes texts with characters that the fast engine does not know yet: loaded with the first one.
    spare: OnceLock<Result<Box<Reference>, String>>,
}

impl FastFirst {
    pub(super) fn new(engines: Vec<Candidate>, untried: Option<Box<Reference>>) -> Self {
        Self { engines, untried, spare: OnceLock::new() }
    }

    #[cold]
    pub(super) fn reference(&self, file: &File) -> Result<&Reference, EncodeError> {
        if let Some(reference) = &self.untried {
            return Ok(reference);
        }
        let load = || file.reference().map(Box::new);
        self.spare.get_or_init(load).as_deref().map_err(|problem| problem.as_str().into())
    }
}

/// The reference runs, and the log says why.
pub(super) fn fall_back(name: &str, reference: Reference, reason: String) -> Running {
    tracing::warn!(
        tokenizer = name,
        reason,
        "the fast engine does not run this tokenizer as the reference does; \
         the reference runs, with the right ids and at a fraction of the speed"
    );
    Running::Reference(Box::new(reference), reason)
}
