//! The type that fits Python values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, TimeUnit};
use arrowwood::Value;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::to_object::{UUID, cached_class};
use super::to_value::{ConversionError, ConversionErrorKind, to_builtin, to_value};
use crate::interpreter::py_call::CallPy;

/// The maximum depth of nested values; one may even contain itself.
const MAX_DEPTH: usize = 64;

/// The type as known from the values seen so far.
#[derive(Clone, Debug)]
pub enum InferredType {
    /// Nothing but nulls.
    Unknown,
    Int {
        /// True if a value is below zero.
        negative: bool,
        /// True if a value needs 64 bits without a sign.
        large: bool,
    },
    /// The maximum number of digits before and after the point.
    Decimal(i32, i32),
    List(Box<InferredType>),
    Struct(Vec<(String, InferredType)>),
    Plain(DataType),
    Uuid,
    /// Numbers of NumPy, with a known type, and their type as Python numbers, which applies if they are mixed with
    /// others.
    Typed(DataType, Box<InferredType>),
}

impl InferredType {
    /// Returns the type that fits all values seen.
    pub fn data_type(&self) -> DataType {
        match self {
            InferredType::Unknown => DataType::Null,
            InferredType::Int { large: true, .. } => DataType::UInt64,
            InferredType::Int { .. } => DataType::Int64,
            InferredType::Decimal(before, behind) => decimal(before + behind, *behind),
            InferredType::List(item) => DataType::List(Arc::new(item.field("item"))),
            InferredType::Struct(members) => {
                DataType::Struct(members.iter().map(|(name, kind)| kind.field(name)).collect())
            }
            InferredType::Uuid => DataType::FixedSizeBinary(16),
            InferredType::Plain(data_type) | InferredType::Typed(data_type, _) => data_type.clone(),
        }
    }

    /// Returns a field of the type that fits all values seen.
    pub fn field(&self, name: &str) -> Field {
        let field = Field::new(name, self.data_type(), true);
        match self {
            InferredType::Uuid => field.with_metadata(HashMap::from([
                (EXTENSION_TYPE_NAME_KEY.into(), "arrow.uuid".into()),
                (EXTENSION_TYPE_METADATA_KEY.into(), String::new()),
            ])),
            _ => field,
        }
    }

    /// Widens the type to fit a value, too.
    pub fn observe(&mut self, object: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        self.observe_nested(object, 0)
    }

    fn observe_nested(&mut self, object: &Bound<'_, PyAny>, depth: usize) -> Result<(), ConversionError> {
        if depth > MAX_DEPTH {
            return Err(ConversionError::Range(format!(
                "the lists and dicts in it are nested more than {MAX_DEPTH} deep"
            )));
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            return self.see_list(object, depth);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            return self.see_dict(dict, depth);
        }
        match to_value(&DataType::Null, object)? {
            Some(value) if self.has(&value) => Ok(()),
            Some(value) => {
                let merged = kind_of(&value, object)?.and_then(|kind| self.merged(kind));
                *self = merged.ok_or_else(|| self.mismatch(object))?;
                Ok(())
            }
            None if is_uuid(object)? => {
                *self = self.merged(InferredType::Uuid).ok_or_else(|| self.mismatch(object))?;
                Ok(())
            }
            None => match to_builtin(object)? {
                Some(other) => match numpy_type(object)? {
                    Some(data_type) => {
                        let mut inferred = InferredType::Unknown;
                        inferred.observe_nested(&other, depth)?;
                        *self = self.merged(inferred.typed(&data_type)).ok_or_else(|| self.mismatch(object))?;
                        Ok(())
                    }
                    None => self.observe_nested(&other, depth),
                },
                None => Err(self.mismatch(object)),
            },
        }
    }

    /// Returns true if `value` would not change the type.
    fn has(&self, value: &Value<'_>) -> bool {
        use DataType::*;
        match (self, value) {
            (_, Value::Null)
            | (InferredType::Plain(Float64), Value::Float64(_))
            | (InferredType::Plain(Utf8), Value::Str(_))
            | (InferredType::Plain(Boolean), Value::Bool(_)) => true,
            (InferredType::Int { negative, .. }, Value::Int(number)) => *negative || *number >= 0,
            (InferredType::Plain(Timestamp(unit, zone)), Value::Timestamp(_, other, new)) => {
                unit == other && zone.is_some() == new.is_some()
            }
            _ => false,
        }
    }

    fn mismatch(&self, object: &Bound<'_, PyAny>) -> ConversionError {
        let class = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        match self {
            InferredType::Unknown => {
                ConversionError::Type(format!("expected a value that Arrow has a type for, got {class}"))
            }
            known => ConversionError::for_object(ConversionErrorKind::Type, &known.data_type(), object),
        }
    }

    fn see_list(&mut self, list: &Bound<'_, PyAny>, depth: usize) -> Result<(), ConversionError> {
        if let InferredType::Unknown = self {
            *self = InferredType::List(Box::new(InferredType::Unknown));
        }
        let InferredType::List(item) = self else { return Err(self.mismatch(list)) };
        list.try_iter()?.try_for_each(|value| item.observe_nested(&value?, depth + 1))
    }

    fn see_dict(&mut self, dict: &Bound<'_, PyDict>, depth: usize) -> Result<(), ConversionError> {
        if let InferredType::Unknown = self {
            *self = InferredType::Struct(Vec::new());
        }
        let InferredType::Struct(members) = self else { return Err(self.mismatch(dict)) };
        for (key, value) in dict {
            let key: String = key.extract()?;
            let index = members.iter().position(|(name, _)| *name == key).unwrap_or(members.len());
            if index == members.len() {
                members.push((key, InferredType::Unknown));
            }
            let (_, member) = &mut members[index];
            member.observe_nested(&value, depth + 1)?;
        }
        Ok(())
    }

    /// Adds the type of the innermost numbers.
    fn typed(self, data_type: &DataType) -> InferredType {
        match self {
            InferredType::List(item) => InferredType::List(Box::new(item.typed(data_type))),
            number => InferredType::Typed(data_type.clone(), Box::new(number)),
        }
    }

    /// Returns the type that fits the values of both `self` and `other`.
    fn merged(&self, other: InferredType) -> Option<InferredType> {
        use DataType::*;
        Some(match (self, other) {
            (InferredType::Unknown, other) => other,
            (known, InferredType::Unknown) => known.clone(),
            (InferredType::Typed(own, known), InferredType::Typed(other, new)) => {
                let merged = known.merged(*new)?;
                if *own == other { InferredType::Typed(other, Box::new(merged)) } else { merged }
            }
            (InferredType::Typed(_, known), other) => known.merged(other)?,
            (known, InferredType::Typed(_, new)) => known.merged(*new)?,
            (InferredType::List(item), InferredType::List(other)) => InferredType::List(Box::new(item.merged(*other)?)),
            (InferredType::Int { negative, large }, InferredType::Int { negative: other, large: more }) => {
                let negative = *negative || other;
                let large = *large || more;
                return (!(negative && large)).then_some(InferredType::Int { negative, large });
            }
            (InferredType::Int { .. }, InferredType::Plain(Float64))
            | (InferredType::Plain(Float64), InferredType::Int { .. }) => InferredType::Plain(Float64),
            (InferredType::Decimal(before, behind), InferredType::Decimal(a, b)) => {
                InferredType::Decimal(a.max(*before), b.max(*behind))
            }
            (InferredType::Plain(Timestamp(unit, zone)), InferredType::Plain(Timestamp(other, new)))
                if zone.is_some() == new.is_some() =>
            {
                InferredType::Plain(Timestamp(finer(*unit, other), zone.clone()))
            }
            (InferredType::Plain(Duration(unit)), InferredType::Plain(Duration(other))) => {
                InferredType::Plain(Duration(finer(*unit, other)))
            }
            (InferredType::Uuid, InferredType::Uuid) => InferredType::Uuid,
            (InferredType::Uuid, InferredType::Plain(Binary)) | (InferredType::Plain(Binary), InferredType::Uuid) => {
                InferredType::Plain(Binary)
            }
            (InferredType::Plain(one), InferredType::Plain(other)) if *one == other => InferredType::Plain(other),
            _ => return None,
        })
    }
}

/// The type of the numbers of a scalar or an array of NumPy; `None` for times, text and other types with Python
/// classes.
fn numpy_type(object: &Bound<'_, PyAny>) -> PyResult<Option<DataType>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    let name: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    let data_type = super::from_numpy::data_type(&name);
    Ok(data_type.filter(|data_type| data_type.is_numeric() || *data_type == DataType::Boolean))
}

fn is_uuid(object: &Bound<'_, PyAny>) -> Result<bool, ConversionError> {
    Ok(object.is_instance(cached_class(object.py(), &UUID, "uuid", "UUID")?)?)
}

fn finer(one: TimeUnit, other: TimeUnit) -> TimeUnit {
    // Arrow's units are numbered in increasing order of resolution.
    if (one as u8) < (other as u8) { other } else { one }
}

fn decimal(precision: i32, scale: i32) -> DataType {
    let precision = u8::try_from(precision.max(1)).unwrap_or(u8::MAX);
    let scale = i8::try_from(scale).unwrap_or(i8::MAX);
    if precision <= DECIMAL128_MAX_PRECISION {
        DataType::Decimal128(precision, scale)
    } else {
        DataType::Decimal256(precision.min(DECIMAL256_MAX_PRECISION), scale)
    }
}

fn kind_of(value: &Value<'_>, object: &Bound<'_, PyAny>) -> Result<Option<InferredType>, ConversionError> {
    use DataType::*;
    Ok(Some(match value {
        Value::Int(number) => InferredType::Int { negative: *number < 0, large: false },
        Value::UInt(_) => InferredType::Int { negative: false, large: true },
        Value::Int128(_) => return Err(ConversionError::for_object(ConversionErrorKind::Range, &UInt64, object)),
        Value::Decimal { digits, scale } => {
            let figures = if *digits == i256::ZERO { 0 } else { digits.wrapping_abs().to_string().len() as i32 };
            // Tens behind the digits count as digits.
            InferredType::Decimal((figures - i32::from(*scale)).max(0), i32::from(*scale).max(0))
        }
        Value::Bool(_) => InferredType::Plain(Boolean),
        Value::Float64(_) => InferredType::Plain(Float64),
        Value::Str(_) => InferredType::Plain(Utf8),
        Value::Bytes(_) => InferredType::Plain(Binary),
        Value::Date(_) => InferredType::Plain(Date32),
        Value::Time(..) => InferredType::Plain(Time64(TimeUnit::Microsecond)),
        Value::Duration(_, unit) => InferredType::Plain(Duration(*unit)),
        Value::Timestamp(_, unit, None) => InferredType::Plain(Timestamp(*unit, None)),
        Value::Timestamp(_, unit, Some(_)) => InferredType::Plain(Timestamp(*unit, Some(zone(object)?.into()))),
        _ => return Ok(None),
    }))
}

/// Returns the name of a datetime's time zone, or its offset.
fn zone(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = object.py();
    let zone = object.getattr(intern!(py, "tzinfo"))?;
    for name in ["key", "zone"] {
        if let Some(name) = zone.getattr_opt(name)?
            && let Ok(name) = name.extract()
        {
            return Ok(name);
        }
    }
    let offset: f64 = object.call_py_method("utcoffset", ())?.call_py_method("total_seconds", ())?.extract()?;
    let minutes = (offset / 60.0) as i64;
    let sign = if minutes < 0 { '-' } else { '+' };
    let hours = minutes.abs() / 60;
    let rest = minutes.abs() % 60;
    Ok(if minutes == 0 { "UTC".into() } else { format!("{sign}{hours:02}:{rest:02}") })
}
