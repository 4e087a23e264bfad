//! `where`: which rows of a table are documents.
//!
//! The expression is SQL. sqlparser reads it, and arrow's kernels evaluate it one batch at a time, with SQL's
//! three-valued logic: a row is a document only where the expression is true, not where it is false or null. A column
//! that a file lacks is in its path, as Hive and its successors write partitions, or null.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_not_null, is_null, not, or_kleene};
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
use sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value as Literal};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::column;
use crate::error::Error;

/// An expression over the columns of a table.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    expression: Arc<Expr>,
    names: Arc<[String]>,
    /// The columns that are in a file's path, and their values.
    partitions: Arc<[(String, Option<String>)]>,
}

/// What the directory of a partition has for null.
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
    /// What is wrong with it, or which part of SQL is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).map_err(|e| e.to_string())?;
        let expression = parser.parse_expr().map_err(|e| e.to_string())?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            return Err(format!("{:?} follows the expression", rest.token.to_string()));
        }
        let mut names = Vec::new();
        names_of(&expression, &mut names)?;
        Ok(Self { expression: Arc::new(expression), names: names.into(), partitions: Arc::default() })
    }

    /// The same for a file.
    pub(super) fn of_file(self, path: &Path) -> Self {
        Self { partitions: partitions(path).collect(), ..self }
    }

    /// The columns that neither a file nor its path has, and what `find` says of them.
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

    fn evaluate(&self, expression: &Expr, batch: &RecordBatch) -> Result<Value, String> {
        let of = |expression: &Expr| self.evaluate(expression, batch);
        match expression {
            Expr::Identifier(name) => self.column(&name.value, batch),
            Expr::CompoundIdentifier(parts) => self.column(&dotted(parts), batch),
            Expr::Value(value) => Ok(Value { array: literal(&value.value)?, is_scalar: true }),
            Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => of(inner),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let value = of(expr)?;
                let array = neg(&value.array).map_err(failed)?;
                Ok(Value { array, ..value })
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                let value = of(expr)?;
                value.with(not(&boolean(&value)?))
            }
            Expr::IsNull(inner) => of(inner).and_then(|value| value.with(is_null(&value.array))),
            Expr::IsNotNull(inner) => of(inner).and_then(|value| value.with(is_not_null(&value.array))),
            Expr::IsTrue(inner) => is(of(inner)?, true, false),
            Expr::IsNotTrue(inner) => is(of(inner)?, true, true),
            Expr::IsFalse(inner) => is(of(inner)?, false, false),
            Expr::IsNotFalse(inner) => is(of(inner)?, false, true),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                both(&of(left)?, &of(right)?, batch.num_rows(), and_kleene)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                both(&of(left)?, &of(right)?, batch.num_rows(), or_kleene)
            }
            Expr::BinaryOp { left, op, right } => binary(&of(left)?, op, &of(right)?),
            Expr::Between { expr, negated, low, high } => {
                let value = of(expr)?;
                let above = binary(&value, &BinaryOperator::GtEq, &of(low)?)?;
                let below = binary(&value, &BinaryOperator::LtEq, &of(high)?)?;
                let between = both(&above, &below, batch.num_rows(), and_kleene)?;
                if *negated { between.with(not(&boolean(&between)?)) } else { Ok(between) }
            }
            Expr::InList { expr, list, negated } => {
                let value = of(expr)?;
                let mut found = Value { array: Arc::new(BooleanArray::from(vec![false])), is_scalar: true };
                for item in list {
                    let equal = binary(&value, &BinaryOperator::Eq, &of(item)?)?;
                    found = both(&found, &equal, batch.num_rows(), or_kleene)?;
                }
                if *negated { found.with(not(&boolean(&found)?)) } else { Ok(found) }
            }
            Expr::Like { negated, expr, pattern, .. } => {
                let kernel = if *negated { like::nlike } else { like::like };
                strings(&of(expr)?, &of(pattern)?, kernel)
            }
            Expr::ILike { negated, expr, pattern, .. } => {
                let kernel = if *negated { like::nilike } else { like::ilike };
                strings(&of(expr)?, &of(pattern)?, kernel)
            }
            other => Err(format!("`{other}` is not supported")),
        }
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

/// Collects the names of the columns in an expression, and refuses what cannot be evaluated.
fn names_of(expression: &Expr, names: &mut Vec<String>) -> Result<(), String> {
    let mut each = |parts: &[&Expr]| parts.iter().try_for_each(|part| names_of(part, names));
    match expression {
        Expr::Identifier(name) => names.push(name.value.clone()),
        Expr::CompoundIdentifier(parts) => names.push(dotted(parts)),
        Expr::Value(value) => return literal(&value.value).map(drop),
        Expr::Nested(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Not | UnaryOperator::Minus | UnaryOperator::Plus,
            expr: inner,
        } => {
            each(&[inner])?;
        }
        Expr::BinaryOp { left, op, right } if is_supported(op) => each(&[left, right])?,
        Expr::Between { expr, low, high, .. } => each(&[expr, low, high])?,
        Expr::InList { expr, list, .. } => {
            each(&[expr])?;
            list.iter().try_for_each(|item| names_of(item, names))?;
        }
        Expr::Like { any: false, expr, pattern, escape_char: None, .. }
        | Expr::ILike { any: false, expr, pattern, escape_char: None, .. } => each(&[expr, pattern])?,
        other => {
            return Err(format!(
                "`{other}` is not supported; use comparisons, and, or, not, in, between, like, ilike, is null and \
                 arithmetic over columns, numbers and strings"
            ));
        }
    }
    Ok(())
}

fn is_supported(operator: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        operator,
        B::And
            | B::Or
            | B::Eq
            | B::NotEq
            | B::Lt
            | B::LtEq
            | B::Gt
            | B::GtEq
            | B::Plus
            | B::Minus
            | B::Multiply
            | B::Divide
            | B::Modulo
    )
}

fn dotted(parts: &[Ident]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
    parts.join(".")
}

fn literal(value: &Literal) -> Result<ArrayRef, String> {
    Ok(match value {
        Literal::Number(digits, _) => match (digits.parse::<i64>(), digits.parse::<u64>()) {
            (Ok(whole), _) => Arc::new(Int64Array::from(vec![whole])),
            (_, Ok(whole)) => Arc::new(UInt64Array::from(vec![whole])),
            _ => {
                let number = digits.parse::<f64>().map_err(|_| format!("{digits} is not a number"))?;
                Arc::new(Float64Array::from(vec![number]))
            }
        },
        Literal::SingleQuotedString(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        Literal::Boolean(truth) => Arc::new(BooleanArray::from(vec![*truth])),
        Literal::Null => Arc::new(NullArray::new(1)),
        other => {
            return Err(format!("`{other}` is not supported; write numbers, 'strings', true, false or null"));
        }
    })
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

    /// The same shape with other values.
    fn with(&self, array: Result<BooleanArray, ArrowError>) -> Result<Self, String> {
        Ok(Self { array: Arc::new(array.map_err(failed)?), is_scalar: self.is_scalar })
    }
}

/// Compares or computes, with both sides in a type that holds them.
fn binary(left: &Value, operator: &BinaryOperator, right: &Value) -> Result<Value, String> {
    use BinaryOperator as B;
    let kind = common(left, right)?;
    let is_scalar = left.is_scalar && right.is_scalar;
    let (left, right) = (datum(left, &kind)?, datum(right, &kind)?);
    let compare = |kernel: fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>| {
        kernel(&*left, &*right).map(|array| Arc::new(array) as ArrayRef)
    };
    let array = match operator {
        B::Eq => compare(cmp::eq),
        B::NotEq => compare(cmp::neq),
        B::Lt => compare(cmp::lt),
        B::LtEq => compare(cmp::lt_eq),
        B::Gt => compare(cmp::gt),
        B::GtEq => compare(cmp::gt_eq),
        B::Plus => add(&*left, &*right),
        B::Minus => sub(&*left, &*right),
        B::Multiply => mul(&*left, &*right),
        B::Divide => div(&*left, &*right),
        B::Modulo => rem(&*left, &*right),
        other => return Err(format!("`{other}` is not supported")),
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
fn is(value: Value, wanted: bool, negated: bool) -> Result<Value, String> {
    let truth = boolean(&value)?;
    let array: BooleanArray = truth.iter().map(|truth| Some((truth == Some(wanted)) != negated)).collect();
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
        // A path has no types: what is compared with a number is one.
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
