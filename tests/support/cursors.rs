//! Cursors that tests edit.

use millstream::Cursor;
use serde_json::Value;

/// A cursor without its checksum, to be edited.
pub(crate) fn editable(cursor: &Cursor) -> Value {
    let mut form = serde_json::to_value(cursor).expect("it serializes");
    form.as_object_mut().expect("an object").remove("checksum");
    form
}
