//! Cells of a table as values.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, TimeUnit};

use crate::excerpt::excerpt;
use crate::source::filter::{Clock, Kind, Scalar, Time};

/// The kind of a column's values.
pub(super) fn kind(of: &DataType) -> Kind {
    use DataType as T;
    match of {
        T::Null => Kind::Null,
        T::Boolean => Kind::Truth,
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Kind::Text,
        of if of.is_numeric() => Kind::Number,
        of if of.is_binary() => Kind::Text,
        T::Date32 | T::Date64 => Kind::Time(Clock::UTC),
        T::Timestamp(_, zone) => Kind::Time(clock(zone.as_deref())),
        T::Time32(_) | T::Time64(_) => Kind::Time(Clock::OfDay),
        T::Dictionary(_, values) => kind(values),
        other => Kind::Other(excerpt(&other.to_string())),
    }
}

pub(crate) fn cell(column: &dyn Array, row: usize) -> Scalar<'_> {
    use DataType as T;
    macro_rules! at {
        ($of:ty) => {
            column.as_primitive::<$of>().value(row)
        };
    }
    if column.is_null(row) {
        return Scalar::Null;
    }
    match column.data_type() {
        T::Null => Scalar::Null,
        T::Boolean => Scalar::Truth(column.as_boolean().value(row)),
        T::Int8 => Scalar::whole(at!(Int8Type)),
        T::Int16 => Scalar::whole(at!(Int16Type)),
        T::Int32 => Scalar::whole(at!(Int32Type)),
        T::Int64 => Scalar::whole(at!(Int64Type)),
        T::UInt8 => Scalar::whole(at!(UInt8Type)),
        T::UInt16 => Scalar::whole(at!(UInt16Type)),
        T::UInt32 => Scalar::whole(at!(UInt32Type)),
        T::UInt64 => Scalar::whole(at!(UInt64Type)),
        T::Float16 => Scalar::Float(at!(Float16Type).into()),
        T::Float32 => Scalar::Float(at!(Float32Type).into()),
        T::Float64 => Scalar::Float(at!(Float64Type)),
        T::Decimal32(_, scale) => Scalar::Exact { digits: at!(Decimal32Type).into(), scale: *scale },
        T::Decimal64(_, scale) => Scalar::Exact { digits: at!(Decimal64Type).into(), scale: *scale },
        T::Decimal128(_, scale) => Scalar::Exact { digits: at!(Decimal128Type), scale: *scale },
        T::Decimal256(_, scale) => match at!(Decimal256Type).to_i128() {
            Some(digits) => Scalar::Exact { digits, scale: *scale },
            None => {
                let (low, high) = at!(Decimal256Type).to_parts();
                let digits = high as f64 * 2_f64.powi(128) + low as f64;
                Scalar::Float(digits / 10_f64.powi((*scale).into()))
            }
        },
        T::Utf8 => Scalar::Text(column.as_string::<i32>().value(row)),
        T::LargeUtf8 => Scalar::Text(column.as_string::<i64>().value(row)),
        T::Utf8View => Scalar::Text(column.as_string_view().value(row)),
        T::Binary => Scalar::Bytes(column.as_binary::<i32>().value(row)),
        T::LargeBinary => Scalar::Bytes(column.as_binary::<i64>().value(row)),
        T::BinaryView => Scalar::Bytes(column.as_binary_view().value(row)),
        T::FixedSizeBinary(_) => Scalar::Bytes(column.as_fixed_size_binary().value(row)),
        T::Date32 => time(i64::from(at!(Date32Type)) * 86_400, TimeUnit::Second, Clock::UTC),
        T::Date64 => time(at!(Date64Type), TimeUnit::Millisecond, Clock::UTC),
        T::Timestamp(unit, zone) => {
            let since = match unit {
                TimeUnit::Second => at!(TimestampSecondType),
                TimeUnit::Millisecond => at!(TimestampMillisecondType),
                TimeUnit::Microsecond => at!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => at!(TimestampNanosecondType),
            };
            time(since, *unit, clock(zone.as_deref()))
        }
        T::Time32(TimeUnit::Second) => time(at!(Time32SecondType).into(), TimeUnit::Second, Clock::OfDay),
        T::Time32(unit) => time(at!(Time32MillisecondType).into(), *unit, Clock::OfDay),
        T::Time64(TimeUnit::Microsecond) => {
            time(at!(Time64MicrosecondType), TimeUnit::Microsecond, Clock::OfDay)
        }
        T::Time64(unit) => time(at!(Time64NanosecondType), *unit, Clock::OfDay),
        T::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            match cell(dictionary.keys(), row) {
                Scalar::Exact { digits: key, .. } => cell(dictionary.values(), key as usize),
                _ => Scalar::Null,
            }
        }
        _ => Scalar::Other,
    }
}

/// The clock of times in a zone. Those without one are in UTC.
fn clock(zone: Option<&str>) -> Clock {
    zone.map_or(Clock::UTC, Clock::in_zone)
}

fn time(since: i64, unit: TimeUnit, clock: Clock) -> Scalar<'static> {
    let unit = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    Scalar::Time(Time { nanos: i128::from(since) * unit, clock })
}
