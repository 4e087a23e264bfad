//! Values in the encodings of MDS.

use crate::document::ColumnValue;
use crate::excerpt::excerpt;
use crate::source::carried::FieldValue;

const TEXTS: [&str; 5] = ["str", "bytes", "str_int", "str_float", "str_decimal"];
const INTEGERS: [&str; 9] = ["int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"];
const FLOATS: [&str; 3] = ["float16", "float32", "float64"];

/// The value that these bytes are in an encoding.
pub(super) fn value(encoding: &str, bytes: &[u8]) -> FieldValue {
    let number = |of: Option<ColumnValue>| match of {
        Some(value) => FieldValue::Value(value),
        None => FieldValue::Other(format!("not a number of {encoding}").into()),
    };
    if INTEGERS.contains(&encoding) {
        return number(integer(bytes, !encoding.starts_with('u')).map(ColumnValue::Integer));
    }
    if FLOATS.contains(&encoding) {
        return number(float(bytes).map(ColumnValue::Float));
    }
    if !TEXTS.contains(&encoding) {
        return FieldValue::Other(excerpt(encoding).into());
    }
    let Ok(text) = str::from_utf8(bytes) else { return FieldValue::NOT_UTF8 };
    match encoding {
        "str_int" => number(text.parse().ok().map(ColumnValue::Integer)),
        "str_float" => number(text.parse().ok().map(ColumnValue::Float)),
        // A decimal number is compared as one.
        "str_decimal" => FieldValue::untyped(text),
        _ => FieldValue::Value(ColumnValue::Text(text.into())),
    }
}

/// A little-endian integer of at most 64 bits.
fn integer(bytes: &[u8], is_signed: bool) -> Option<i128> {
    let mut all = [0; 16];
    all.get_mut(..bytes.len()).filter(|part| part.len() <= 8)?.copy_from_slice(bytes);
    let is_negative = is_signed && bytes.last()? & 0x80 != 0;
    all[bytes.len()..].fill(if is_negative { 0xff } else { 0 });
    Some(i128::from_le_bytes(all))
}

/// A little-endian float of 16, 32 or 64 bits.
fn float(bytes: &[u8]) -> Option<f64> {
    Some(match *bytes {
        [a, b] => half(u16::from_le_bytes([a, b])),
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        _ => f64::from_le_bytes(bytes.try_into().ok()?),
    })
}

/// A float of 16 bits, as in IEEE 754.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_has_its_values() {
        let cases = [
            ("str", "é".as_bytes(), ColumnValue::Text("é".into())),
            ("bytes", b"ab", ColumnValue::Text("ab".into())),
            ("int", &(-3_i64).to_le_bytes(), ColumnValue::Integer(-3)),
            ("int8", &[0xff], ColumnValue::Integer(-1)),
            ("uint8", &[0xff], ColumnValue::Integer(255)),
            ("uint64", &[0xff; 8], ColumnValue::Integer(u64::MAX.into())),
            ("float16", &0x3555_u16.to_le_bytes(), ColumnValue::Float(0.333_251_953_125)),
            ("float16", &0xc000_u16.to_le_bytes(), ColumnValue::Float(-2.0)),
            ("float16", &1_u16.to_le_bytes(), ColumnValue::Float(2_f64.powi(-24))),
            ("float32", &0.5_f32.to_le_bytes(), ColumnValue::Float(0.5)),
            ("float64", &1e300_f64.to_le_bytes(), ColumnValue::Float(1e300)),
            ("str_int", b"-7", ColumnValue::Integer(-7)),
            ("str_float", b"0.5", ColumnValue::Float(0.5)),
        ];
        for (encoding, bytes, expected) in cases {
            assert_eq!(value(encoding, bytes), FieldValue::Value(expected), "{encoding}");
        }
        assert_eq!(value("str_decimal", b"1.50"), FieldValue::Untyped("1.50".into()));
        let others =
            [("int", &b""[..]), ("float32", b"abc"), ("str_int", b"x"), ("str", b"\xff"), ("ndarray", b"a")];
        for (encoding, bytes) in others {
            assert!(matches!(value(encoding, bytes), FieldValue::Other(_)), "{encoding}");
        }
    }
}
