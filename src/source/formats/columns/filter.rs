//! `where`: which rows of a table are documents.
//!
//! The expression is SQL, as far as `grammar` reads it. arrow's kernels evaluate it one batch at a time, with SQL's
//! three-valued logic: a row is a document only where the expression is true, not where it is false or null. A column
//! that a file lacks is taken from its path, where Hive and its successors write partitions, or is null.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_null, not, or_kleene};
use arrow_arith::numeric::{add, div, mul, neg, rem, sub};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, Float64Array, Int64Array, NullArray, RecordBatch, Scalar,
    StringArray, UInt64Array, new_null_array,
};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use arrow_string::like;

use super::column;
use crate::error::Error;

mod expression;
mod grammar;

use expression::{Binary, Expression, Literal, Operand, Step};

/// An expression over the columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    expression: Arc<Expression>,
    names: Arc<[String]>,
    /// The columns that are in a file's path, and their values.
    partitions: Arc<[(String, Option<String>)]>,
}

/// The name of a partition directory for null.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns in a path.
fn partitions(path: &Path) -> impl Iterator<Item = (String, Option<String>)> {
    let directories = path.parent().into_iter().flat_map(Path::components);
    directories.filter_map(|directory| {
        let (name, value) = directory.as_os_str().to_str()?.split_once('=')?;
        Some((name.to_owned(), Some(value.to_owned()).filter(|value| value != NULL_PARTITION)))
    })
}

/// The value of an expression: one for each row, or one for all rows.
struct Value {
    array: ArrayRef,
    is_scalar: bool,
}

impl Filter {
    /// Parses an expression.
    ///
    /// # Errors
    /// The problem of the expression, or the unsupported part of SQL.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let expression = grammar::parse(text)?;
        let mut names = BTreeSet::new();
        expression.names(&mut names);
        let names = names.into_iter().map(str::to_owned).collect();
        Ok(Self { expression: Arc::new(expression), names, partitions: Arc::default() })
    }

    /// The same for a file.
    pub(super) fn of_file(self, path: &Path) -> Self {
        Self { partitions: partitions(path).collect(), ..self }
    }

    /// The columns that neither a file nor its path has, each with its message from `find`.
    pub(super) fn absent(
        &self,
        path: &Path,
        find: impl Fn(&str) -> Result<(), Error>,
    ) -> BTreeMap<String, String> {
        let partitions: Vec<String> = partitions(path).map(|(name, _)| name).collect();
        let names = self.names.iter().filter(|name| !partitions.contains(name));
        names.filter_map(|name| Some((name.clone(), find(name).err()?.to_string()))).collect()
    }

    /// The dotted names of the columns that it uses.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// For each row, whether the expression is true, or null.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<BooleanArray, String> {
        let value = self.evaluate(&self.expression, batch)?;
        let truth = boolean(&value)?;
        if !value.is_scalar {
            return Ok(truth);
        }
        let one = truth.is_valid(0).then(|| truth.value(0));
        Ok(BooleanArray::from(vec![one; batch.num_rows()]))
    }

    fn evaluate(&self, expression: &Expression, batch: &RecordBatch) -> Result<Value, String> {
        let of = |expression: &Expression| self.evaluate(expression, batch);
        let operand = match &expression.operand {
            Operand::Column(name) => self.column(name, batch)?,
            Operand::Literal(literal) => Value { array: constant(literal), is_scalar: true },
            Operand::Not(inner) => of(inner)?.negated()?,
            Operand::Negative(inner) => {
                let value = of(inner)?;
                let array = neg(&value.array).map_err(failed)?;
                Value { array, ..value }
            }
        };
        expression.steps.iter().try_fold(operand, |value, step| self.step(value, step, batch))
    }

    /// The result of a step on the value before it.
    fn step(&self, value: Value, step: &Step, batch: &RecordBatch) -> Result<Value, String> {
        let of = |expression: &Expression| self.evaluate(expression, batch);
        let rows = batch.num_rows();
        let (found, is_negated) = match step {
            Step::And(right) => (both(&value, &of(right)?, rows, and_kleene)?, false),
            Step::Or(right) => (both(&value, &of(right)?, rows, or_kleene)?, false),
            Step::Binary(operator, right) => (binary(&value, *operator, &of(right)?)?, false),
            Step::Is { truth: Some(truth), negated } => (is(value, *truth)?, *negated),
            Step::Is { truth: None, negated } => (value.with(is_null(&value.array))?, *negated),
            Step::Between { low, high, negated } => {
                let above = binary(&value, Binary::AtLeast, &of(low)?)?;
                let below = binary(&value, Binary::AtMost, &of(high)?)?;
                (both(&above, &below, rows, and_kleene)?, *negated)
            }
            Step::In { list, negated } => {
                let mut found = Value { array: constant(&Literal::Truth(false)), is_scalar: true };
                for item in list {
                    let equal = binary(&value, Binary::Equal, &of(item)?)?;
                    found = both(&found, &equal, rows, or_kleene)?;
                }
                (found, *negated)
            }
            Step::Like { pattern, any_case, negated } => {
                let kernel = if *any_case { like::ilike } else { like::like };
                (strings(&value, &of(pattern)?, kernel)?, *negated)
            }
        };
        if is_negated { found.negated() } else { Ok(found) }
    }

    /// The values of a column: those in the table, or else that in the path, or else null.
    fn column(&self, name: &str, batch: &RecordBatch) -> Result<Value, String> {
        if let Ok(array) = column(batch, name) {
            return Value::rows(array);
        }
        let partition = self.partitions.iter().find(|(partition, _)| partition == name);
        let array: ArrayRef = match partition.and_then(|(_, value)| value.as_ref()) {
            Some(value) => Arc::new(StringArray::from(vec![value.as_str()])),
            None => Arc::new(NullArray::new(1)),
        };
        Ok(Value { array, is_scalar: true })
    }
}

/// One value for all rows.
fn constant(literal: &Literal) -> ArrayRef {
    match literal {
        Literal::Whole(number) => Arc::new(Int64Array::from(vec![*number])),
        Literal::Unsigned(number) => Arc::new(UInt64Array::from(vec![*number])),
        Literal::Float(number) => Arc::new(Float64Array::from(vec![*number])),
        Literal::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        Literal::Truth(truth) => Arc::new(BooleanArray::from(vec![*truth])),
        Literal::Null => Arc::new(NullArray::new(1)),
    }
}

impl Value {
    /// The values of a column. Those of a dictionary are looked up.
    fn rows(array: ArrayRef) -> Result<Self, String> {
        let array = match array.data_type() {
            DataType::Dictionary(_, values) => cast(&array, values).map_err(failed)?,
            _ => array,
        };
        Ok(Self { array, is_scalar: false })
    }

    /// Whether the value is a constant that can be read as another type.
    fn fits(&self, kind: &DataType) -> bool {
        self.is_scalar && datum(self, kind).is_ok()
    }

    /// False where it is true, and true where it is false.
    fn negated(&self) -> Result<Self, String> {
        self.with(not(&boolean(self)?))
    }

    /// The same shape with other values.
    fn with(&self, array: Result<BooleanArray, ArrowError>) -> Result<Self, String> {
        Ok(Self { array: Arc::new(array.map_err(failed)?), is_scalar: self.is_scalar })
    }
}

/// Compares or computes, with both sides in a type that holds them.
fn binary(left: &Value, operator: Binary, right: &Value) -> Result<Value, String> {
    let kind = common(left, right)?;
    let is_scalar = left.is_scalar && right.is_scalar;
    let (left, right) = (datum(left, &kind)?, datum(right, &kind)?);
    let compare = |kernel: fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>| {
        kernel(&*left, &*right).map(|array| Arc::new(array) as ArrayRef)
    };
    let array = match operator {
        Binary::Equal => compare(cmp::eq),
        Binary::NotEqual => compare(cmp::neq),
        Binary::Less => compare(cmp::lt),
        Binary::AtMost => compare(cmp::lt_eq),
        Binary::Greater => compare(cmp::gt),
        Binary::AtLeast => compare(cmp::gt_eq),
        Binary::Plus => add(&*left, &*right),
        Binary::Minus => sub(&*left, &*right),
        Binary::Times => mul(&*left, &*right),
        Binary::Divide => div(&*left, &*right),
        Binary::Remainder => rem(&*left, &*right),
    };
    Ok(Value { array: array.map_err(failed)?, is_scalar })
}

fn strings(
    value: &Value,
    pattern: &Value,
    kernel: fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>,
) -> Result<Value, String> {
    let is_scalar = value.is_scalar && pattern.is_scalar;
    let (value, pattern) = (datum(value, &DataType::Utf8)?, datum(pattern, &DataType::Utf8)?);
    let array = kernel(&*value, &*pattern).map_err(failed)?;
    Ok(Value { array: Arc::new(array), is_scalar })
}

/// Joins two truth values, row by row.
fn both(
    left: &Value,
    right: &Value,
    rows: usize,
    kernel: fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>,
) -> Result<Value, String> {
    let spread = |value: &Value| -> Result<BooleanArray, String> {
        let truth = boolean(value)?;
        if !value.is_scalar || (left.is_scalar && right.is_scalar) {
            return Ok(truth);
        }
        Ok(BooleanArray::from(vec![truth.is_valid(0).then(|| truth.value(0)); rows]))
    };
    let array = kernel(&spread(left)?, &spread(right)?).map_err(failed)?;
    Ok(Value { array: Arc::new(array), is_scalar: left.is_scalar && right.is_scalar })
}

/// Whether a truth value is `wanted`. The answer is never null.
fn is(value: Value, wanted: bool) -> Result<Value, String> {
    let truth = boolean(&value)?;
    let array: BooleanArray = truth.iter().map(|truth| Some(truth == Some(wanted))).collect();
    Ok(Value { array: Arc::new(array), ..value })
}

fn boolean(value: &Value) -> Result<BooleanArray, String> {
    match value.array.data_type() {
        DataType::Boolean => Ok(value.array.as_boolean().clone()),
        DataType::Null => Ok(new_null_array(&DataType::Boolean, value.array.len()).as_boolean().clone()),
        other => Err(format!("a value of {other} stands where true or false must be")),
    }
}

/// A type that holds the values of both sides.
fn common(left: &Value, right: &Value) -> Result<DataType, String> {
    use DataType as T;
    let is_string = |of: &T| matches!(of, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    let is_binary = |of: &T| matches!(of, T::Binary | T::LargeBinary | T::BinaryView);
    let both = [left, right];
    let [is_left_scalar, is_right_scalar] = both.map(|value| value.is_scalar);
    let fits = |kind: &T| both.iter().all(|value| value.array.data_type() == kind || value.fits(kind));
    Ok(match (left.array.data_type(), right.array.data_type()) {
        (left, right) if left == right => left.clone(),
        (T::Null, other) | (other, T::Null) => other.clone(),
        (left, right) if left.is_integer() && right.is_integer() => {
            // Values that need all 64 bits do not fit into a signed type.
            if both.iter().any(|value| *value.array.data_type() == T::UInt64) && fits(&T::UInt64) {
                T::UInt64
            } else {
                T::Int64
            }
        }
        (left, right) if left.is_numeric() && right.is_numeric() => T::Float64,
        (left, right) if is_string(left) && is_string(right) => T::Utf8,
        // A path has no types: a value that is compared with a number is read as one.
        (number, text) if is_right_scalar && number.is_numeric() && is_string(text) => number.clone(),
        (text, number) if is_left_scalar && number.is_numeric() && is_string(text) => number.clone(),
        // Some programs do not mark text as text.
        (left, right) if is_binary(left) && (is_string(right) || is_binary(right)) => T::Binary,
        (left, right) if is_string(left) && is_binary(right) => T::Binary,
        // Times are written as strings.
        (time, text) | (text, time) if time.is_temporal() && is_string(text) => time.clone(),
        (left, right) => return Err(format!("{left} cannot be compared with {right}")),
    })
}

/// The values in another type. A column's value that does not fit becomes null; a constant's is an error.
fn datum(value: &Value, kind: &DataType) -> Result<Box<dyn Datum>, String> {
    let options = CastOptions { safe: !value.is_scalar, ..CastOptions::default() };
    let array = if value.array.data_type() == kind {
        value.array.clone()
    } else {
        cast_with_options(&value.array, kind, &options).map_err(failed)?
    };
    Ok(if value.is_scalar { Box::new(Scalar::new(array)) } else { Box::new(array) })
}

fn failed(error: ArrowError) -> String {
    super::said(&error)
}
