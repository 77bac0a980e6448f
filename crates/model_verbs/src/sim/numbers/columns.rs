//! The rows as columns of a Parquet file.

use std::sync::Arc;

use measure::Estimate;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{COLUMNS, Numbers, Row};
use cli::Failure;

impl Numbers {
    /// As a Parquet file: one row group, no compression.
    pub(in crate::sim) fn parquet(&self) -> Result<Vec<u8>, Failure> {
        self.write_parquet().map_err(Failure::machine)
    }

    fn write_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(Vec::new(), self.schema()?, properties)?;
        let mut group = writer.next_row_group()?;
        for at in 0..self.parameters.len() {
            let values: Vec<&str> = self.rows.iter().map(|row| row.values[at].as_str()).collect();
            text_column(&mut group, &values)?;
        }
        let texts: [fn(&Row) -> &str; 4] =
            [|row| row.kind, |row| &row.name, |row| &row.number, |row| row.unit];
        for text in texts {
            text_column(&mut group, &self.rows.iter().map(text).collect::<Vec<_>>())?;
        }
        let numbers: [fn(&Estimate) -> f64; 3] =
            [|value| value.mean, |value| value.half_width, |value| value.confidence];
        for number in numbers {
            let values: Vec<f64> = self.rows.iter().map(|row| number(&row.estimate)).collect();
            number_column(&mut group, &values)?;
        }
        text_column(&mut group, &self.rows.iter().map(Row::bound).collect::<Vec<_>>())?;
        group.close()?;
        writer.into_inner()
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let text = |name: &str| {
            Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::String))
                .build()
        };
        // Where there is no interval, half of it is missing.
        let number = |name: &str| {
            Type::primitive_type_builder(name, PhysicalType::DOUBLE)
                .with_repetition(Repetition::OPTIONAL)
                .build()
        };
        let mut fields = Vec::new();
        for parameter in &self.parameters {
            fields.push(Arc::new(text(parameter)?));
        }
        for column in COLUMNS {
            let is_number = ["mean", "half_width", "confidence"].contains(&column);
            fields.push(Arc::new(if is_number { number(column)? } else { text(column)? }));
        }
        Ok(Arc::new(Type::group_type_builder("simulation").with_fields(fields).build()?))
    }
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn text_column(group: &mut Group<'_>, values: &[&str]) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(*value)).collect();
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()
}

/// Values that are not finite are missing.
fn number_column(group: &mut Group<'_>, values: &[f64]) -> Result<(), ParquetError> {
    let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_finite())).collect();
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let mut column = group.next_column()?.expect("the schema has this column");
    column.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
    column.close()
}
