//! Reads splits whose tokens are stored, in token shards or a cache: no text is opened.

use super::super::cached;
use super::super::group::{Group, GroupEnd};
use super::super::stored::{StepRoom, StoredStep};
use super::{GROUP_SPLITS, Reader};
use crate::budget::Lease;
use crate::config::OnError;
use crate::error::Result;
use crate::shards::StoredSplit;
use crate::source::framing::Boundary;
use crate::store::ReadTurn;

impl Reader {
    /// Groups the documents of the next splits, whose tokens are stored.
    pub(super) fn read_stored(&mut self, lease: Lease) -> Result<Group> {
        let mut boundary = Boundary { byte: self.at.byte, line: self.at.line };
        let (room, group) = (StepRoom::new(self.slab_bytes), Group::empty(GroupEnd::More));
        let mut step = StoredStep { lease: &lease, room, group };
        for _ in 0..GROUP_SPLITS {
            let (ordinal, before) = (self.at.split, self.at);
            let Some(tokens) = self.tokens_at(ordinal)? else { break };
            let Some(dealt) = self.dealt(ordinal) else { break };
            self.opener.reach(ReadTurn { epoch: self.at.epoch, split: ordinal });
            let next = match step.take(&self.grouper, &tokens, dealt, boundary, &mut self.at) {
                Ok(next) => next,
                Err(error) => {
                    cached::give_up(self.cached.as_ref(), &tokens, error)?;
                    self.at = before;
                    step.group.give_back();
                    break;
                }
            };
            self.go_to(ordinal, next);
            boundary = Boundary::default();
            if next.is_some() {
                break;
            }
        }
        Ok(step.group)
    }

    /// The stored tokens of the lane's split `ordinal` of this epoch.
    pub(super) fn tokens_at(&mut self, ordinal: u64) -> Result<Option<StoredSplit>> {
        let Some(&number) = self.deal.get(ordinal as usize) else { return Ok(None) };
        match &self.open_tokens {
            Some((open, tokens)) if *open == number => return Ok(Some(tokens.clone())),
            _ => {}
        }
        if let Some(tokens) = self.corpus().open_tokens(number, &self.opener)? {
            self.open_tokens = Some((number, tokens.clone()));
            return Ok(Some(tokens));
        }
        Ok(self.cached_tokens(ordinal, number))
    }

    /// Whether the tokens of the lane's split `ordinal` are stored.
    pub(super) fn has_tokens(&self, ordinal: u64) -> bool {
        let Some(&number) = self.deal.get(ordinal as usize) else { return false };
        self.corpus().tokens(number).is_some() || self.cached_tokens(ordinal, number).is_some()
    }

    /// The tokens of a split in the cache.
    fn cached_tokens(&self, ordinal: u64, number: u32) -> Option<StoredSplit> {
        if self.split_recorder.is_under_way(number) {
            return None;
        }
        let tokens = self.cached.as_ref()?.tokens(number)?;
        let most = self.most_skipped(ordinal);
        // If too many may have been skipped, the text must show which document was one too many.
        (tokens.skipped() == 0 || self.at.skipped + tokens.skipped() <= most).then_some(tokens)
    }

    /// How many documents an epoch may skip, in the source of split `ordinal`.
    pub(super) fn most_skipped(&self, ordinal: u64) -> u64 {
        let corpus = self.corpus();
        match self.deal.get(ordinal as usize).map(|&number| corpus.format(corpus.split(number).file).on_error)
        {
            Some(OnError::Skip(most)) => most,
            Some(OnError::Fail) | None => 0,
        }
    }
}
