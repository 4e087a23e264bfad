//! The custom stages of a loader, which a program puts between the built-in ones.
//!
//! They stand in three places: before the tokenizer, after it, and after packing. Each is opened once for each lane and
//! source, inside an [`Instrumented`] stream that counts and checks its output.

use std::fmt;
use std::sync::Arc;

use futures::stream::BoxStream;

use super::instrumented::{Bounds, Instrumented, Item};
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{Document, Sequence, Tokens};
use crate::error::Result;
use crate::meter::{CustomMeters, Meter};

/// A lane's documents, before they are tokenized.
pub type DocumentStream = BoxStream<'static, Result<Tracked<Document>>>;

/// A lane's documents as ids, after the tokenizer and before the shuffle.
pub type TokenStream = BoxStream<'static, Result<Tracked<Tokens>>>;

/// A lane's rows, after packing.
pub type SequenceStream = BoxStream<'static, Result<Tracked<Sequence>>>;

/// A lane's items of one kind.
type Items<T> = BoxStream<'static, Result<Tracked<T>>>;

/// Makes a lane's output from the lane's input and the cursor that it is opened at.
type Open<T> = dyn Fn(Items<T>, &LaneCursor) -> Items<T> + Send + Sync;

/// A custom stage: its name, and the function that opens it.
#[derive(Clone)]
pub(super) struct CustomStage<T> {
    pub(super) name: String,
    open: Arc<Open<T>>,
}

impl<T> CustomStage<T> {
    pub(super) fn new(
        name: String,
        open: impl Fn(Items<T>, &LaneCursor) -> Items<T> + Send + Sync + 'static,
    ) -> Self {
        Self { name, open: Arc::new(open) }
    }
}

/// The custom stages of a loader, each kind in the order that they were added.
#[derive(Clone, Default)]
pub(super) struct CustomStages {
    pub(super) documents: Vec<CustomStage<Document>>,
    pub(super) tokens: Vec<CustomStage<Tokens>>,
    pub(super) rows: Vec<CustomStage<Sequence>>,
}

impl CustomStages {
    pub(super) fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.tokens.is_empty() && self.rows.is_empty()
    }

    /// The names, in the order that data flows through the stages.
    pub(super) fn names(&self) -> Vec<String> {
        let names = [names(&self.documents), names(&self.tokens), names(&self.rows)];
        names.concat().into_iter().map(str::to_owned).collect()
    }

    pub(super) fn meters(&self) -> CustomMeters {
        CustomMeters::new(&names(&self.documents), &names(&self.tokens), &names(&self.rows))
    }

    /// The fields of the fingerprint that the stages add.
    pub(super) fn fingerprint(&self) -> impl Iterator<Item = (String, String)> {
        let kinds = [
            ("stage", names(&self.documents)),
            ("token_stage", names(&self.tokens)),
            ("row_stage", names(&self.rows)),
        ];
        kinds.into_iter().flat_map(|(kind, names)| {
            let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
            (0..).zip(names).map(move |(place, name): (usize, String)| (format!("{kind}.{place}"), name))
        })
    }
}

impl fmt::Debug for CustomStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

fn names<T>(stages: &[CustomStage<T>]) -> Vec<&str> {
    stages.iter().map(|stage| stage.name.as_str()).collect()
}

/// Puts `stages` after a lane's items, each counted in its own meter. The first stage's time spent on its input is also
/// counted in `upstream`, if given.
pub(super) fn open<T: Item>(
    stages: &[CustomStage<T>],
    meters: &[Arc<Meter>],
    items: Items<T>,
    at: &LaneCursor,
    bounds: Bounds,
    upstream: Option<Arc<Meter>>,
) -> Items<T> {
    let mut upstream = upstream;
    stages.iter().zip(meters).fold(items, |items, (stage, meter)| {
        let upstream = upstream.take();
        Instrumented::around(&stage.name, meter, items, bounds, upstream, |items| (stage.open)(items, at))
    })
}
