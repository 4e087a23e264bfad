//! Cursors that tests edit.

use millstream::Cursor;
use serde_json::Value;

/// A cursor in the form of the version before, which has no checksum: what is edited in it is not noticed by one.
pub(crate) fn editable(cursor: &Cursor) -> Value {
    let mut form = serde_json::to_value(cursor).expect("it serializes");
    form["version"] = 3.into();
    form.as_object_mut().expect("an object").remove("checksum");
    form
}
