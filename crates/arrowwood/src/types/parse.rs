//! Types and schemas from text: the inverse of [`type_name`](crate::type_name).
//!
//! ```text
//! schema:  field { "," | line break  field }
//! field:   name ":" type [ "not null" ]            the name in quotes where it holds one of  , : < > " '
//! type:    int64 | timestamp[us, UTC] | decimal128(10, 2) | list<type> | struct<field, …> | dictionary<type, type> | …
//! ```

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};

use crate::error::{Error, Result};

/// The maximum nesting depth of types.
const MAX_DEPTH: usize = 64;

/// Parses a type as printed by [`type_name`](crate::type_name).
///
/// Examples: `timestamp[ms, UTC]`, `list<int32>`, `struct<x: float32, y: float32>`. Types inside another are nullable
/// unless followed by `not null`.
///
/// Common names and names of other libraries are accepted as well: `int` and `float` (of 64 bits), `double`, `str`,
/// `string`, `bytes`, `boolean`, `date`, `time`, `timestamp` or `datetime` (in microseconds), `decimal(10, 2)`,
/// `category` (`dictionary<int32, utf8>`).
///
/// ```
/// # use arrow_schema::DataType;
/// assert_eq!(arrowwood::parse_type("dictionary<int32, utf8>")?, DataType::Dictionary(
///     Box::new(DataType::Int32),
///     Box::new(DataType::Utf8),
/// ));
/// let error = arrowwood::parse_type("list<inf64>").unwrap_err();
/// assert_eq!(error.message(), "expected a type such as int64 or utf8, got 'inf64' at character 6 of 'list<inf64>'");
/// # Ok::<(), arrowwood::Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument`, with the expected text and the character.
pub fn parse_type(text: &str) -> Result<DataType> {
    let mut parser = TypeParser::new(text);
    let data_type = parser.data_type()?;
    parser.space();
    if parser.rest().is_empty() { Ok(data_type) } else { Err(parser.expected("the end of the type")) }
}

/// Parses a schema: fields separated by commas or line breaks.
///
/// A field is nullable unless its type is followed by `not null`. Names may be quoted. Types are written as for
/// [`parse_type`].
///
/// ```
/// let schema = arrowwood::parse_schema("ts: timestamp[us] not null, symbol: category, \"the price\": float")?;
/// assert_eq!(schema.field(2).name(), "the price");
/// assert!(schema.field(2).is_nullable() && !schema.field(0).is_nullable());
/// # Ok::<(), arrowwood::Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument`, with the expected text and the character, or the duplicate name.
pub fn parse_schema(text: &str) -> Result<Schema> {
    let mut parser = TypeParser::new(text);
    let mut fields: Vec<FieldRef> = Vec::new();
    loop {
        parser.skip(char::is_whitespace);
        if parser.rest().is_empty() && !fields.is_empty() {
            return Ok(Schema::new(fields));
        }
        let field = parser.field()?;
        if fields.iter().any(|other| other.name() == field.name()) {
            return Err(Error::invalid_argument(format!("the schema has two columns '{}'", field.name())));
        }
        fields.push(field);
        parser.space();
        if !parser.rest().is_empty() && !parser.eat("\n") && !parser.eat("\r\n") {
            parser.want(",", "a comma or a new line after the column's type")?;
        }
    }
}

/// A parser by recursive descent. Each method parses what it is named for from `at` on, after spaces, and moves `at` to
/// its end. A method that fails moves `at` to the text that its error reports.
struct TypeParser<'a> {
    text: &'a str,
    /// The end of the parsed part, in bytes.
    at: usize,
    /// The number of types around the one that is parsed.
    depth: usize,
}

impl<'a> TypeParser<'a> {
    fn new(text: &'a str) -> TypeParser<'a> {
        TypeParser { text, at: 0, depth: 0 }
    }

    /// Returns the text that is not parsed yet.
    fn rest(&self) -> &'a str {
        debug_assert!(self.text.is_char_boundary(self.at), "parsed up to the middle of a character");
        &self.text[self.at..]
    }

    /// Skips the characters for which `skipped` returns true.
    fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        self.at = self.text.len() - self.rest().trim_start_matches(skipped).len();
    }

    /// Skips spaces, and line breaks that don't end a field.
    fn space(&mut self) {
        let inside = self.depth > 0;
        self.skip(|c| c.is_whitespace() && (inside || c != '\n' && c != '\r'));
    }

    /// Consumes `token` if it comes next.
    fn eat(&mut self, token: &str) -> bool {
        let start = self.at;
        self.space();
        let is_next = self.rest().starts_with(token);
        self.at = if is_next { self.at + token.len() } else { start };
        is_next
    }

    /// Consumes `token`, which must come next. `what` describes it in the error.
    fn want(&mut self, token: &str, what: &str) -> Result<()> {
        if self.eat(token) {
            return Ok(());
        }
        self.space();
        Err(self.expected(what))
    }

    /// Returns the error that says that `what` was expected at this position, and what is there instead.
    fn expected(&self, what: &str) -> Error {
        let rest = self.rest();
        let end = rest.find([',', '<', '>', '[', ']', '(', ')', '\n']).unwrap_or(rest.len());
        let got = match rest.chars().next() {
            None => "the end".to_string(),
            Some(first) if end == 0 => format!("{first:?}"),
            Some(_) => format!("'{}'", short(&rest[..end])),
        };
        let place = self.text[..self.at].chars().count() + 1;
        Error::invalid_argument(format!("expected {what}, got {got} at character {place} of '{}'", short(self.text)))
    }

    /// Parses letters, digits and `_`, of which there may be none.
    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Parses a whole number, such as a width. `what` describes it in the error.
    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        self.space();
        let start = self.at;
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        self.at += end;
        rest[..end].parse().map_err(|_| {
            self.at = start;
            self.expected(what)
        })
    }

    /// Parses the name of a field, which ends before a colon.
    fn name(&mut self) -> Result<String> {
        self.space();
        if let Some(quote) = self.rest().chars().next().filter(|quote| ['"', '\''].contains(quote)) {
            return self.quoted(quote);
        }
        let rest = self.rest();
        let end = rest.find([':', ',', '<', '>', '"', '\n']).filter(|&end| rest[end..].starts_with(':'));
        match end.map(|end| (end, rest[..end].trim_end())) {
            Some((end, name)) if !name.is_empty() => {
                self.at += end;
                Ok(name.to_string())
            }
            _ => Err(self.expected("a column as in 'price: float64'")),
        }
    }

    /// Parses a quoted name; quotes inside it are doubled. A quote is one byte.
    fn quoted(&mut self, quote: char) -> Result<String> {
        let mut name = String::new();
        loop {
            let inside = self.rest().get(1..).unwrap_or_default();
            let Some(end) = inside.find(quote) else { return Err(self.expected("a name with its closing quote")) };
            name.push_str(&inside[..end]);
            self.at += end + 2;
            if !self.rest().starts_with(quote) {
                return Ok(name);
            }
            name.push(quote);
        }
    }

    fn field(&mut self) -> Result<FieldRef> {
        let name = self.name()?;
        self.want(":", "a colon after the column's name")?;
        self.typed(&name)
    }

    /// Parses a type, and whether it is nullable, as the field `name`.
    fn typed(&mut self, name: &str) -> Result<FieldRef> {
        let data_type = self.data_type()?;
        let start = self.at;
        let is_nullable = !(self.word() == "not" && self.word() == "null");
        if is_nullable {
            self.at = start;
        }
        Ok(Arc::new(Field::new(name, data_type, is_nullable)))
    }

    /// Parses the field inside of another: `int32`, which is called `name`, or `item: int32`.
    fn inner(&mut self, name: &str) -> Result<FieldRef> {
        let start = self.at;
        let named = self.word();
        if !named.is_empty() && self.eat(":") {
            return self.typed(named);
        }
        self.at = start;
        self.typed(name)
    }

    fn data_type(&mut self) -> Result<DataType> {
        self.space();
        if self.depth >= MAX_DEPTH {
            return Err(self.expected(&format!("types no more than {MAX_DEPTH} deep")));
        }
        let start = self.at;
        let name = self.word().to_ascii_lowercase();
        if let Some(data_type) = plain(&name) {
            return Ok(data_type);
        }
        self.depth += 1;
        let parsed = self.with_parameters(&name);
        self.depth -= 1;
        parsed.unwrap_or_else(|| {
            self.at = start;
            Err(self.expected("a type such as int64 or utf8"))
        })
    }

    /// Parses the parameters of the type named `name`; returns `None` if there is no such type.
    fn with_parameters(&mut self, name: &str) -> Option<Result<DataType>> {
        use DataType::*;
        Some(match name {
            "date32" => self.unit_in_brackets("day", Date32),
            "date64" => self.unit_in_brackets("ms", Date64),
            "timestamp" | "datetime" => self.timestamp(),
            "time" => Ok(Time64(TimeUnit::Microsecond)),
            "time32" => self.unit(TimeUnit::Millisecond, &["s", "ms"]).map(Time32),
            "time64" => self.unit(TimeUnit::Microsecond, &["us", "ns"]).map(Time64),
            "duration" | "timedelta" => self.unit(TimeUnit::Microsecond, &["s", "ms", "us", "ns"]).map(Duration),
            "interval" => self.interval(),
            "fixed_size_binary" => self.size().map(FixedSizeBinary),
            "decimal32" => self.decimal(9, Decimal32),
            "decimal64" => self.decimal(18, Decimal64),
            "decimal" | "decimal128" => self.decimal(38, Decimal128),
            "decimal256" => self.decimal(76, Decimal256),
            "list" => self.item().map(List),
            "large_list" => self.item().map(LargeList),
            "list_view" => self.item().map(ListView),
            "large_list_view" => self.item().map(LargeListView),
            "fixed_size_list" => self.item().and_then(|item| Ok(FixedSizeList(item, self.size()?))),
            "struct" => self.members().map(|fields| Struct(Fields::from(fields))),
            "map" => self.map(),
            "sparse_union" => self.members().and_then(|fields| self.union(fields, UnionMode::Sparse)),
            "dense_union" => self.members().and_then(|fields| self.union(fields, UnionMode::Dense)),
            "dictionary" => self.dictionary(),
            "run_end_encoded" => self.run_ends(),
            _ => return None,
        })
    }

    /// Parses a unit in brackets, one of `allowed`; returns `default` if there are no brackets.
    fn unit(&mut self, default: TimeUnit, allowed: &[&str]) -> Result<TimeUnit> {
        if !self.eat("[") {
            return Ok(default);
        }
        let unit = self.unit_of(allowed)?;
        self.want("]", "a closing bracket")?;
        Ok(unit)
    }

    /// Parses a unit, one of `allowed`.
    fn unit_of(&mut self, allowed: &[&str]) -> Result<TimeUnit> {
        let start = self.at;
        let unit = match self.word() {
            other if !allowed.contains(&other) => None,
            "s" => Some(TimeUnit::Second),
            "ms" => Some(TimeUnit::Millisecond),
            "us" => Some(TimeUnit::Microsecond),
            _ => Some(TimeUnit::Nanosecond),
        };
        unit.ok_or_else(|| {
            self.at = start;
            self.expected(&format!("a unit: {}", allowed.join(", ")))
        })
    }

    /// Parses the unit that a date may have, as pyarrow prints it: `date32[day]`.
    fn unit_in_brackets(&mut self, unit: &str, data_type: DataType) -> Result<DataType> {
        if self.eat("[") {
            self.want(unit, unit)?;
            self.want("]", "a closing bracket")?;
        }
        Ok(data_type)
    }

    fn timestamp(&mut self) -> Result<DataType> {
        if !self.eat("[") {
            return Ok(DataType::Timestamp(TimeUnit::Microsecond, None));
        }
        let unit = self.unit_of(&["s", "ms", "us", "ns"])?;
        let mut zone = None;
        if self.eat(",") {
            self.eat("tz=");
            self.space();
            let rest = self.rest();
            let name = rest[..rest.find(']').unwrap_or(rest.len())].trim_end();
            if name.is_empty() {
                return Err(self.expected("a time zone such as UTC"));
            }
            self.at += name.len();
            zone = Some(Arc::from(name));
        }
        self.want("]", "a closing bracket")?;
        Ok(DataType::Timestamp(unit, zone))
    }

    fn interval(&mut self) -> Result<DataType> {
        self.want("[", "a unit in brackets")?;
        let start = self.at;
        let unit = match self.word() {
            "year_month" => IntervalUnit::YearMonth,
            "day_time" => IntervalUnit::DayTime,
            "month_day_nano" => IntervalUnit::MonthDayNano,
            _ => {
                self.at = start;
                return Err(self.expected("a unit: year_month, day_time, month_day_nano"));
            }
        };
        self.want("]", "a closing bracket")?;
        Ok(DataType::Interval(unit))
    }

    /// Parses a size in brackets.
    fn size(&mut self) -> Result<i32> {
        self.want("[", "a size in brackets")?;
        let size: u32 = self.number("a size")?;
        self.want("]", "a closing bracket")?;
        i32::try_from(size).map_err(|_| self.expected("a size below 2^31"))
    }

    fn decimal(&mut self, max_precision: u8, make_type: fn(u8, i8) -> DataType) -> Result<DataType> {
        let what = format!("a precision from 1 to {max_precision}");
        self.want("(", "a precision and a scale in parentheses")?;
        let start = self.at;
        let precision: u8 = self.number(&what)?;
        if !(1..=max_precision).contains(&precision) {
            self.at = start;
            return Err(self.expected(&what));
        }
        let scale = if self.eat(",") { self.number("a scale")? } else { 0 };
        self.want(")", "a closing parenthesis")?;
        Ok(make_type(precision, scale))
    }

    /// Parses the type of a list's items in angle brackets.
    fn item(&mut self) -> Result<FieldRef> {
        self.want("<", "the items' type in angle brackets")?;
        let item = self.inner("item")?;
        self.want(">", "a closing angle bracket")?;
        Ok(item)
    }

    /// Parses fields in angle brackets.
    fn members(&mut self) -> Result<Vec<FieldRef>> {
        let mut fields = Vec::new();
        self.want("<", "members in angle brackets")?;
        while !self.eat(">") {
            if !fields.is_empty() {
                self.want(",", "a comma or a closing angle bracket")?;
            }
            fields.push(self.field()?);
        }
        Ok(fields)
    }

    /// Parses two fields in angle brackets, whose names are `names` unless they have others.
    fn pair(&mut self, names: [&str; 2]) -> Result<[FieldRef; 2]> {
        self.want("<", "two types in angle brackets")?;
        let first = self.inner(names[0])?;
        self.want(",", "a comma and another type")?;
        let second = self.inner(names[1])?;
        self.want(">", "a closing angle bracket")?;
        Ok([first, second])
    }

    fn map(&mut self) -> Result<DataType> {
        let [key, value] = self.pair(["key", "value"])?;
        let key = Arc::new(key.as_ref().clone().with_nullable(false));
        let entries = DataType::Struct(Fields::from(vec![key, value]));
        Ok(DataType::Map(Arc::new(Field::new("entries", entries, false)), false))
    }

    fn union(&self, fields: Vec<FieldRef>, mode: UnionMode) -> Result<DataType> {
        /// The limit of members: type ids are from 0 to 127.
        const MAX_MEMBERS: usize = 128;
        if fields.len() <= MAX_MEMBERS {
            Ok(DataType::Union(UnionFields::from_fields(fields), mode))
        } else {
            Err(self.expected(&format!("no more than {MAX_MEMBERS} members of a union")))
        }
    }

    fn dictionary(&mut self) -> Result<DataType> {
        let start = self.at;
        if !self.rest().trim_start().starts_with('<') {
            return Ok(text_dictionary());
        }
        let [key, value] = self.pair(["key", "value"])?;
        if !key.data_type().is_dictionary_key_type() {
            self.at = start + 1;
            return Err(self.expected("an integer type for the dictionary's keys"));
        }
        Ok(DataType::Dictionary(Box::new(key.data_type().clone()), Box::new(value.data_type().clone())))
    }

    fn run_ends(&mut self) -> Result<DataType> {
        let start = self.at;
        let [ends, values] = self.pair(["run_ends", "values"])?;
        if !ends.data_type().is_run_ends_type() {
            self.at = start + 1;
            return Err(self.expected("int16, int32 or int64 for the ends of runs"));
        }
        Ok(DataType::RunEndEncoded(Arc::new(ends.as_ref().clone().with_nullable(false)), values))
    }
}

/// Returns the beginning of a text, as one line.
fn short(text: &str) -> String {
    /// The limit of characters.
    const MAX_CHARS: usize = 80;
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if text.chars().count() > MAX_CHARS { line.take(MAX_CHARS - 1).chain(['…']).collect() } else { line.collect() }
}

/// Returns the type of categories.
fn text_dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Returns the type of a name without parameters; `None` for other names.
fn plain(name: &str) -> Option<DataType> {
    use DataType::*;
    Some(match name {
        "null" => Null,
        "bool" | "boolean" => Boolean,
        "int8" => Int8,
        "int16" => Int16,
        "int32" => Int32,
        "int64" | "int" | "integer" => Int64,
        "uint8" => UInt8,
        "uint16" => UInt16,
        "uint32" => UInt32,
        "uint64" => UInt64,
        "float16" | "halffloat" => Float16,
        "float32" => Float32,
        "float64" | "float" | "double" => Float64,
        "utf8" | "str" | "string" | "text" => Utf8,
        "large_utf8" | "large_string" => LargeUtf8,
        "utf8_view" | "string_view" => Utf8View,
        "binary" | "bytes" => Binary,
        "large_binary" => LargeBinary,
        "binary_view" => BinaryView,
        "date" => Date32,
        "category" | "categorical" => text_dictionary(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::layout::type_name;
    use super::*;

    fn units() -> impl Strategy<Value = TimeUnit> {
        prop::sample::select(vec![TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond])
    }

    fn leaves() -> BoxedStrategy<DataType> {
        use DataType::*;
        let simple = vec![
            Null,
            Boolean,
            Int8,
            Int16,
            Int32,
            Int64,
            UInt8,
            UInt16,
            UInt32,
            UInt64,
            Float16,
            Float32,
            Float64,
            Utf8,
            LargeUtf8,
            Utf8View,
            Binary,
            LargeBinary,
            BinaryView,
            Date32,
            Date64,
            Interval(IntervalUnit::DayTime),
            Interval(IntervalUnit::YearMonth),
            Interval(IntervalUnit::MonthDayNano),
            Time32(TimeUnit::Second),
            Time32(TimeUnit::Millisecond),
            Time64(TimeUnit::Microsecond),
            Time64(TimeUnit::Nanosecond),
        ];
        let zones = prop::option::of("UTC|\\+05:30|Europe/Berlin|America/Argentina/Buenos_Aires");
        prop_oneof![
            prop::sample::select(simple),
            (units(), zones).prop_map(|(unit, zone)| Timestamp(unit, zone.map(Into::into))),
            units().prop_map(Duration),
            (0..1000).prop_map(FixedSizeBinary),
            (1u8..=9, -9i8..=9).prop_map(|(p, s)| Decimal32(p, s)),
            (1u8..=18, any::<i8>()).prop_map(|(p, s)| Decimal64(p, s)),
            (1u8..=38, any::<i8>()).prop_map(|(p, s)| Decimal128(p, s)),
            (1u8..=76, any::<i8>()).prop_map(|(p, s)| Decimal256(p, s)),
        ]
        .boxed()
    }

    fn item(data_type: DataType, name: &str) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    fn types() -> impl Strategy<Value = DataType> {
        use DataType::*;
        leaves().prop_recursive(4, 24, 4, |inner| {
            let name = "[a-zA-Zé_][a-zA-Z0-9é_ .-]{0,6}[a-z]";
            let fields = prop::collection::btree_map(name, inner.clone(), 0..4).prop_map(|members| {
                members.into_iter().map(|(name, data_type)| item(data_type, &name)).collect::<Vec<_>>()
            });
            let keys = prop::sample::select(vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64]);
            prop_oneof![
                inner.clone().prop_map(|t| List(item(t, "item"))),
                inner.clone().prop_map(|t| LargeList(item(t, "item"))),
                inner.clone().prop_map(|t| ListView(item(t, "item"))),
                inner.clone().prop_map(|t| LargeListView(item(t, "item"))),
                (inner.clone(), 0..9).prop_map(|(t, n)| FixedSizeList(item(t, "item"), n)),
                fields.clone().prop_map(|fields| Struct(fields.into())),
                fields.clone().prop_map(|fields| Union(UnionFields::from_fields(fields), UnionMode::Dense)),
                fields.prop_map(|fields| Union(UnionFields::from_fields(fields), UnionMode::Sparse)),
                (keys, inner.clone()).prop_map(|(key, value)| Dictionary(key.into(), value.into())),
                (inner.clone(), inner.clone()).prop_map(|(key, value)| {
                    let fields = vec![Arc::new(Field::new("key", key, false)), item(value, "value")];
                    Map(Arc::new(Field::new("entries", Struct(fields.into()), false)), false)
                }),
                inner.prop_map(|t| RunEndEncoded(Arc::new(Field::new("run_ends", Int32, false)), item(t, "values"))),
            ]
        })
    }

    proptest! {
        #[test]
        fn type_names_round_trip(data_type in types()) {
            prop_assert_eq!(parse_type(&type_name(&data_type)).unwrap(), data_type);
        }

        #[test]
        fn schema_fields_round_trip(
            fields in prop::collection::btree_map("[^'\"]{0,8}", (types(), any::<bool>()), 1..5),
        ) {
            let field =
                |(name, (data_type, nullable)): (String, (DataType, bool))| Field::new(name, data_type, nullable);
            let fields: Vec<Field> = fields.into_iter().map(field).collect();
            let line = |field: &Field| {
                let suffix = if field.is_nullable() { "" } else { " not null" };
                format!("'{}' : {}{suffix}", field.name(), type_name(field.data_type()))
            };
            for separator in [",", "\n", ", \n"] {
                let text: Vec<String> = fields.iter().map(line).collect();
                prop_assert_eq!(parse_schema(&text.join(separator)).unwrap(), Schema::new(fields.clone()));
            }
        }

        #[test]
        fn no_text_panics(text in "([a-z<>\\[\\](),:\"' \n]|list<|int32|é|decimal\\(|struct<a: |not null){0,12}") {
            let _ = (parse_type(&text), parse_schema(&text));
        }
    }

    #[test]
    fn common_type_aliases_are_accepted() {
        for (alias, name) in [
            ("int", "int64"),
            ("float", "float64"),
            ("Double", "float64"),
            ("str", "utf8"),
            ("string", "utf8"),
            ("bytes", "binary"),
            ("boolean", "bool"),
            ("date", "date32"),
            ("date32[day]", "date32"),
            ("datetime", "timestamp[us]"),
            ("timestamp", "timestamp[us]"),
            ("timestamp[ns, tz=Europe/Berlin]", "timestamp[ns, Europe/Berlin]"),
            ("time", "time64[us]"),
            ("decimal(10, 2)", "decimal128(10, 2)"),
            ("decimal128(10)", "decimal128(10, 0)"),
            ("category", "dictionary<int32, utf8>"),
            ("dictionary", "dictionary<int32, utf8>"),
            (" list < item : struct < a : int , b : str > > ", "list<struct<a: int64, b: utf8>>"),
        ] {
            assert_eq!(type_name(&parse_type(alias).unwrap()), name, "{alias}");
        }
        let list = parse_type("list<int32 not null>").unwrap();
        assert_eq!(list, DataType::new_list(DataType::Int32, false));
    }

    #[test]
    fn schemas_are_parsed_from_lists_of_fields() {
        let text = "\n ts: timestamp[us] not null\n\"a \"\"b\"\", c\": struct<x: int,\n y: int>, qty:int,\n";
        let schema = parse_schema(text).unwrap();
        let fields: Vec<_> = schema.fields().iter().map(|f| (f.name().as_str(), f.is_nullable())).collect();
        assert_eq!(fields, [("ts", false), ("a \"b\", c", true), ("qty", true)]);
    }

    #[test]
    fn errors_say_what_was_expected_at_which_position() {
        for (text, part) in [
            ("", "expected a type such as int64 or utf8, got the end at character 1 of ''"),
            ("int64 x", "expected the end of the type, got 'x' at character 7"),
            ("list<int32", "expected a closing angle bracket, got the end at character 11"),
            ("list[int32]", "expected the items' type in angle brackets, got '[' at character 5"),
            ("timestamp[h]", "expected a unit: s, ms, us, ns, got 'h' at character 11"),
            ("time32[ns]", "expected a unit: s, ms, got 'ns'"),
            ("decimal128(39, 2)", "expected a precision from 1 to 38, got '39' at character 12"),
            ("dictionary<utf8, utf8>", "expected an integer type for the dictionary's keys, got 'utf8'"),
            ("extension<arrow.uuid>", "expected a type such as int64 or utf8, got 'extension'"),
        ] {
            let error = parse_type(text).unwrap_err();
            assert!(error.message().contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("", "expected a column as in 'price: float64', got the end"),
            ("price", "expected a column as in 'price: float64', got 'price' at character 1"),
            ("a: int b: int", "expected a comma or a new line after the column's type, got 'b: int' at character 8"),
            ("a: int, a: str", "the schema has two columns 'a'"),
            ("'a: int", "expected a name with its closing quote"),
            ("a: int,\nb: strr", "expected a type such as int64 or utf8, got 'strr' at character 12"),
        ] {
            let error = parse_schema(text).unwrap_err();
            assert!(error.message().contains(part), "{text}: {error}");
        }
        assert!(parse_type(&"list<".repeat(100_000)).unwrap_err().message().contains("64 deep"));
    }
}
