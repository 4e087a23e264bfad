//! Cells of a table as the values that come along with a document.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal256Type;
use arrow_schema::DataType;

use super::cell::cell;
use crate::document::ColumnValue;
use crate::excerpt::excerpt;
use crate::source::filter::{Scalar, Time};

/// The value in a row, or what it holds that is none. Times and decimal numbers are text.
pub(super) fn value(values: &dyn Array, row: usize) -> Result<ColumnValue, String> {
    let of = plain(values.data_type());
    Ok(match cell(values, row) {
        Scalar::Null => ColumnValue::Null,
        Scalar::Truth(truth) => ColumnValue::Bool(truth),
        Scalar::Exact { digits, scale } if of.is_decimal() => {
            ColumnValue::Text(decimal(digits, scale).into())
        }
        Scalar::Exact { digits, .. } => ColumnValue::Integer(digits),
        // One of more digits than are compared.
        Scalar::Float(_) if of.is_decimal() => ColumnValue::Text(long_decimal(values, row)?.into()),
        Scalar::Float(number) => ColumnValue::Float(number),
        Scalar::Text(text) => ColumnValue::Text(text.into()),
        Scalar::Bytes(bytes) => ColumnValue::Text(utf8(bytes)?.into()),
        Scalar::Time(time) => ColumnValue::Text(written(time, of).into()),
        Scalar::Other => return Err(excerpt(&of.to_string())),
    })
}

/// The type of the values of a column.
fn plain(of: &DataType) -> &DataType {
    match of {
        DataType::Dictionary(_, values) => plain(values),
        other => other,
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|_| "bytes that are not UTF-8".to_owned())
}

/// A time of a column of type `of`, as text: a date has no time of day.
pub(super) fn written(time: Time, of: &DataType) -> String {
    let mut text = time.to_string();
    if matches!(plain(of), DataType::Date32 | DataType::Date64) {
        text.truncate(text.find('T').unwrap_or(text.len()));
    }
    text
}

pub(super) fn decimal(digits: i128, scale: i8) -> String {
    let Ok(places) = usize::try_from(scale) else {
        let zeros = if digits == 0 { 0 } else { usize::from(scale.unsigned_abs()) };
        return format!("{digits}{}", "0".repeat(zeros));
    };
    if places == 0 {
        return digits.to_string();
    }
    let sign = if digits < 0 { "-" } else { "" };
    let all = format!("{:0>width$}", digits.unsigned_abs(), width = places + 1);
    let (whole, rest) = all.split_at(all.len() - places);
    format!("{sign}{whole}.{rest}")
}

/// A decimal number of more than 128 bits.
fn long_decimal(values: &dyn Array, row: usize) -> Result<String, String> {
    let decimals = values.as_primitive_opt::<Decimal256Type>();
    let decimals = decimals.ok_or("a decimal number of more than 38 digits in a dictionary")?;
    Ok(decimals.value_as_string(row))
}
