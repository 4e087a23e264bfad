//! The stages of one's own, and whether it is they who have nothing to give.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};

use super::{DocumentStream, OwnStage};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::Document;
use crate::error::Result;
use crate::meter::{Meter, State};

/// Puts the stages behind a lane's documents.
pub(super) fn stages(
    stages: &[(String, OwnStage)],
    documents: DocumentStream,
    at: &LaneCursor,
    meter: Option<&Arc<Meter>>,
) -> DocumentStream {
    let documents = match meter {
        Some(meter) => Upstream { documents, meter: meter.clone(), is_missing: false }.boxed(),
        None => documents,
    };
    stages.iter().fold(documents, |documents, (_, stage)| stage(documents, at))
}

/// What the first stage of one's own takes its documents from. It says when there are none, and costs nothing while
/// there are.
struct Upstream {
    documents: DocumentStream,
    meter: Arc<Meter>,
    is_missing: bool,
}

impl Stream for Upstream {
    type Item = Result<Tracked<Document>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.documents.poll_next_unpin(cx);
        if next.is_pending() != self.is_missing {
            self.is_missing = !self.is_missing;
            self.meter.set_state(if self.is_missing { State::Starved } else { State::Working });
        }
        next
    }
}
