//! Arrow tables by the PyCapsule interface: whoever knows Arrow takes them without a copy.

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;
use wattif_lab::table::number;

/// Rows of a run. Polars, pandas, DuckDB and pyarrow read it by `__arrow_c_stream__`.
#[pyclass(frozen, module = "wattif", name = "Table")]
pub struct Table(RecordBatch);

impl Table {
    /// Of rows that are there already; they are shared, not copied.
    pub fn new(batch: RecordBatch) -> Table {
        Table(batch)
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // the protocol allows to answer with our own
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref());
        let schema = schema.map_err(|e| PyValueError::new_err(e.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// (name, unit, meaning) of every column.
    #[getter]
    fn columns(&self) -> Vec<(String, String, String)> {
        let about = |f: &Field, what: &str| f.metadata().get(what).cloned().unwrap_or_default();
        self.0.schema().fields().iter().map(|f| (f.name().clone(), about(f, "unit"), about(f, "doc"))).collect()
    }

    fn __repr__(&self) -> String {
        let schema = self.0.schema();
        let column = |f: &Arc<Field>| match f.metadata().get("unit").map_or("", String::as_str) {
            "" => f.name().clone(),
            unit => format!("{} [{unit}]", f.name()),
        };
        let columns: Vec<String> = schema.fields().iter().map(column).collect();
        format!("<wattif.Table {} rows: {}>", self.0.num_rows(), columns.join(", "))
    }

    /// For a notebook: the first rows, with unit and meaning of every column.
    fn _repr_html_(&self) -> String {
        let schema = self.0.schema();
        let about = |f: &Field, what: &str| escaped(f.metadata().get(what).map_or("", String::as_str));
        let head = schema.fields().iter().map(|f| {
            let (name, unit, doc) = (escaped(f.name()), about(f, "unit"), about(f, "doc"));
            let unit = if unit.is_empty() { unit } else { format!(" [{unit}]") };
            format!("<th title=\"{doc}\">{name}{unit}</th>")
        });
        let mut html = format!("<table><tr>{}</tr>", head.collect::<String>());
        for row in 0..self.0.num_rows().min(SHOWN) {
            let cells = self.0.columns().iter().map(|c| format!("<td>{}</td>", escaped(&cell(c, row))));
            html += &format!("<tr>{}</tr>", cells.collect::<String>());
        }
        format!("{html}</table><p>{} rows</p>", self.0.num_rows())
    }
}

/// Rows that a notebook shows.
const SHOWN: usize = 10;

/// A value as text; the types are those that our tables have.
fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "–".into();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Float64 => number(column.as_primitive::<Float64Type>().value(row), 6),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_string(),
        DataType::Utf8View => column.as_string_view().value(row).to_string(),
        _ => "…".into(),
    }
}

/// Names from files cannot become markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
