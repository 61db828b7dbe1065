//! Arrow tables by the PyCapsule interface: whoever knows Arrow takes them without a copy.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::Field;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

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
}
