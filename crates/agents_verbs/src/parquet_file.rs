//! Agents as the rows of a Parquet file: the column `agent`, then one for each field of the state, in which a field
//! without a value is null.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use agents_server::StateView;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;

/// Agents of a group of rows: the writer keeps so many in memory.
const GROUP: usize = 10_000;

type Kinds = BTreeMap<String, String>;

/// A file that agents are written to.
pub(crate) struct Writer {
    file: SerializedFileWriter<File>,
    kinds: Kinds,
    rows: Vec<StateView>,
}

impl Writer {
    /// An empty file of agents whose states have fields of these kinds.
    pub(crate) fn new(file: File, kinds: &Kinds) -> Result<Writer, String> {
        let properties = Arc::new(WriterProperties::builder().build());
        let schema = schema(kinds).map_err(told)?;
        let file = SerializedFileWriter::new(file, schema, properties).map_err(told)?;
        Ok(Writer { file, kinds: kinds.clone(), rows: Vec::new() })
    }

    pub(crate) fn push(&mut self, one: StateView) -> Result<(), String> {
        for (field, value) in &one.state {
            let fits = match self.kinds.get(field).map(String::as_str) {
                Some("text") => value.is_string(),
                Some("bool") => value.is_boolean(),
                Some(_) => value.is_number(),
                None => false,
            };
            if !fits {
                return Err(format!(
                    "`{field}` of agent `{}` is not as the rules say: they changed meanwhile; export again",
                    one.agent
                ));
            }
        }
        self.rows.push(one);
        if self.rows.len() == GROUP { self.flush() } else { Ok(()) }
    }

    /// The file with all rows and its end.
    pub(crate) fn end(mut self) -> Result<File, String> {
        self.flush()?;
        self.file.into_inner().map_err(told)
    }

    fn flush(&mut self) -> Result<(), String> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group().map_err(told)?;
        group_of(&mut group, &self.kinds, &rows).map_err(told)?;
        group.close().map(drop).map_err(told)
    }
}

fn told(error: ParquetError) -> String {
    error.to_string()
}

fn schema(kinds: &Kinds) -> Result<TypePtr, ParquetError> {
    let column = |name: &str, kind: &str, repetition| {
        let physical = match kind {
            "text" => PhysicalType::BYTE_ARRAY,
            "bool" => PhysicalType::BOOLEAN,
            _ => PhysicalType::DOUBLE,
        };
        let logical = (kind == "text").then_some(LogicalType::String);
        let column = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        column.with_logical_type(logical).build().map(Arc::new)
    };
    let mut fields = vec![column("agent", "text", Repetition::REQUIRED)?];
    for (name, kind) in kinds {
        fields.push(column(name, kind, Repetition::OPTIONAL)?);
    }
    Ok(Arc::new(Type::group_type_builder("agents").with_fields(fields).build()?))
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn group_of(group: &mut Group<'_>, kinds: &Kinds, rows: &[StateView]) -> Result<(), ParquetError> {
    let names: Vec<ByteArray> = rows.iter().map(|row| row.agent.as_str().into()).collect();
    column::<ByteArrayType>(group, &names, None)?;
    for (field, kind) in kinds {
        let values = || rows.iter().map(|row| row.state.get(field));
        let there: Vec<i16> = values().map(|value| i16::from(value.is_some())).collect();
        let there = Some(&there[..]);
        let values = || values().flatten();
        match kind.as_str() {
            "text" => {
                let texts = values().filter_map(Value::as_str).map(ByteArray::from);
                column::<ByteArrayType>(group, &texts.collect::<Vec<_>>(), there)?;
            }
            "bool" => {
                let truths: Vec<bool> = values().filter_map(Value::as_bool).collect();
                column::<BoolType>(group, &truths, there)?;
            }
            _ => {
                let numbers: Vec<f64> = values().filter_map(Value::as_f64).collect();
                column::<DoubleType>(group, &numbers, there)?;
            }
        }
    }
    Ok(())
}

fn column<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<T>().write_batch(values, there, None)?;
    column.close()
}

/// Reads the agents of a file, each with the number of its row from 1, with the kinds of these fields.
///
/// # Errors
/// It is no Parquet file, or has a column or a cell that does not fit, told with the row and the column.
pub(crate) fn read(
    file: File,
    kinds: &Kinds,
    mut take: impl FnMut(u64, StateView) -> Result<(), String>,
) -> Result<(), String> {
    let reader = SerializedFileReader::new(file).map_err(told)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    check(schema.root_schema(), kinds)?;
    let compressed = |error: ParquetError| match &error {
        ParquetError::General(cause) if cause.contains("isabled feature") => format!(
            "{error}; its columns are compressed: write it without (pandas: `compression=None`)"
        ),
        _ => error.to_string(),
    };
    for (at, row) in (1..).zip(reader.get_row_iter(None).map_err(compressed)?) {
        let one = agent(&row.map_err(compressed)?, kinds)
            .map_err(|(column, cause)| format!("row {at}, column {column}: {cause}"))?;
        take(at, one).map_err(|cause| format!("row {at}: {cause}"))?;
    }
    Ok(())
}

/// Its first column is `agent`, the others are fields of the state, each once.
fn check(schema: &Type, kinds: &Kinds) -> Result<(), String> {
    let mut columns = schema.get_fields().iter().map(|column| column.name());
    if columns.next() != Some("agent") {
        return Err(
            "its first column is not `agent`; the others are fields of the state".to_owned()
        );
    }
    let mut seen = Vec::new();
    for column in columns {
        if !kinds.contains_key(column) {
            let known: Vec<&str> = kinds.keys().map(String::as_str).collect();
            let known = known.join(", ");
            return Err(format!("the state has no field `{column}`; it has: {known}"));
        }
        if seen.contains(&column) {
            return Err(format!("the column `{column}` stands there twice"));
        }
        seen.push(column);
    }
    Ok(())
}

fn agent(row: &Row, kinds: &Kinds) -> Result<StateView, (String, String)> {
    let mut columns = row.get_column_iter();
    let agent = match columns.next() {
        Some((_, Field::Str(name))) => name.clone(),
        // Keys that are numbers.
        Some((_, Field::Long(key))) => key.to_string(),
        Some((_, Field::ULong(key))) => key.to_string(),
        other => {
            let found = other.map_or_else(String::new, |(_, field)| field.to_string());
            return Err(("agent".to_owned(), format!("`{found}` is no name of an agent")));
        }
    };
    let mut state = BTreeMap::new();
    for (column, field) in columns {
        let value = match (kinds[column].as_str(), field) {
            (_, Field::Null) => continue,
            ("text", Field::Str(text)) => Some(Value::String(text.clone())),
            ("bool", Field::Bool(truth)) => Some(Value::Bool(*truth)),
            ("text" | "bool", _) => None,
            (_, field) => number(field).and_then(serde_json::Number::from_f64).map(Value::Number),
        };
        let Some(value) = value else {
            let shown: String = field.to_string().chars().take(80).collect();
            let cause = format!("`{shown}` is no {}", kinds[column]);
            return Err((column.clone(), cause));
        };
        state.insert(column.clone(), value);
    }
    Ok(StateView { agent, state })
}

fn number(field: &Field) -> Option<f64> {
    Some(match field {
        Field::Double(it) => *it,
        Field::Float(it) => f64::from(*it),
        Field::Byte(it) => f64::from(*it),
        Field::Short(it) => f64::from(*it),
        Field::Int(it) => f64::from(*it),
        Field::UByte(it) => f64::from(*it),
        Field::UShort(it) => f64::from(*it),
        Field::UInt(it) => f64::from(*it),
        // JSON's numbers lose the same digits.
        Field::Long(it) => *it as f64,
        Field::ULong(it) => *it as f64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn kinds(pairs: &[(&str, &str)]) -> Kinds {
        pairs.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
    }

    fn one(agent: &str, state: Value) -> StateView {
        StateView { agent: agent.to_owned(), state: serde_json::from_value(state).unwrap() }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("sekisho-{}-{name}.parquet", std::process::id()))
    }

    /// Writes agents, reads them with kinds, and tells what came of it.
    fn moved(
        name: &str,
        all: &[StateView],
        to: &Kinds,
        as_: &Kinds,
    ) -> Result<Vec<StateView>, String> {
        let path = path(name);
        let mut writer = Writer::new(File::create(&path).unwrap(), to)?;
        let pushed = all.iter().try_for_each(|it| writer.push(it.clone()));
        let ended = pushed.and_then(|()| writer.end().map(drop));
        let mut found = Vec::new();
        let read = ended.and_then(|()| {
            read(File::open(&path).unwrap(), as_, |at, one| {
                found.push(one);
                assert_eq!(at, found.len() as u64);
                Ok(())
            })
        });
        std::fs::remove_file(&path).unwrap();
        read.map(|()| found)
    }

    #[test]
    fn agents_come_back_as_they_were() {
        let kinds = kinds(&[("high", "number"), ("on", "bool"), ("owner", "text")]);
        let mut all: Vec<StateView> = (0..2 * GROUP + 1)
            .map(|n| one(&format!("a{n}"), json!({"high": n as f64 / 3.0, "owner": "é \"x\","})))
            .collect();
        all.push(one("none", json!({})));
        all.push(one("all", json!({"high": -1e300, "on": false, "owner": ""})));
        assert_eq!(moved("same", &all, &kinds, &kinds), Ok(all));
        assert_eq!(moved("none", &[], &kinds, &kinds), Ok(vec![]));
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_row() {
        let (number, text) = (kinds(&[("high", "number")]), kinds(&[("high", "text")]));
        let all = [one("a", json!({})), one("b", json!({"high": 1.5}))];
        let told = |to: &Kinds, as_: &Kinds| moved("wrong", &all, to, as_).unwrap_err();
        assert_eq!(told(&number, &text), "row 2, column high: `1.5` is no text");
        let other = kinds(&[("low", "number")]);
        assert_eq!(told(&number, &other), "the state has no field `high`; it has: low");
        assert!(told(&text, &text).contains("`high` of agent `b` is not as the rules say"));
        let path = path("foreign");
        std::fs::write(&path, "agent,high\n").unwrap();
        let foreign = read(File::open(&path).unwrap(), &number, |_, _| Ok(())).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(foreign.contains("Parquet"), "{foreign}");
    }
}
