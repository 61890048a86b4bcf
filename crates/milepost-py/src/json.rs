//! Converts Python values to JSON text and back without losing anything: integers of any size, floats to the last bit,
//! and text in any script. What JSON cannot represent is refused, with its place in the value.

use milepost::internal::seal::strict;
use milepost::model::RawJson;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::error::invalid;

/// Maximum nesting. The library accepts less; this bound ends cycles.
const MAX_DEPTH: usize = 200;

/// The JSON text of a Python value.
#[pyfunction]
pub(crate) fn encode_state(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let mut encoder = Encoder { text: String::new(), path: Vec::new() };
    encoder.value(value)?;
    Ok(encoder.text)
}

/// The Python value of a JSON text.
#[pyfunction]
pub(crate) fn decode_state<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

/// The state as the library takes it. The library checks the text more strictly than the encoder.
pub(crate) fn raw(text: &str) -> PyResult<RawJson> {
    strict::raw(text.as_bytes()).map_err(|e| invalid(&e.to_string()))
}

struct Encoder {
    text: String,
    path: Vec<String>,
}

impl Encoder {
    fn value(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.path.len() > MAX_DEPTH {
            return Err(invalid("the value nests too deeply, or contains itself"));
        }
        if value.is_none() {
            self.text.push_str("null");
        } else if let Ok(value) = value.cast::<PyBool>() {
            self.text.push_str(if value.is_true() { "true" } else { "false" });
        } else if let Ok(value) = value.cast::<PyString>() {
            self.string(value)?;
        } else if let Ok(value) = value.cast::<PyInt>() {
            self.int(value)?;
        } else if let Ok(value) = value.cast::<PyFloat>() {
            self.float(value.value())?;
        } else if let Ok(list) = value.cast::<PyList>() {
            self.elements(list.iter())?;
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.elements(tuple.iter())?;
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.members(dict)?;
        } else {
            let name = value.get_type().name()?;
            return Err(self.refuse(&format!("a value of type {name} cannot be written as JSON")));
        }
        Ok(())
    }

    fn string(&mut self, value: &Bound<'_, PyString>) -> PyResult<()> {
        let Ok(text) = value.to_cow() else {
            return Err(self.refuse("the text contains a surrogate, which UTF-8 cannot represent"));
        };
        // A string is always serialised.
        self.text.push_str(&serde_json::to_string(&text).unwrap_or_default());
        Ok(())
    }

    fn int(&mut self, value: &Bound<'_, PyInt>) -> PyResult<()> {
        match value.extract::<i64>() {
            Ok(number) => self.text.push_str(&number.to_string()),
            Err(_) => {
                // The method of int itself, because subclasses such as enums have another text.
                let digits = value.py().get_type::<PyInt>().call_method1("__repr__", (value,));
                let digits = digits.map_err(|e| self.refuse(&e.value(value.py()).to_string()))?;
                self.text.push_str(&digits.extract::<String>()?);
            }
        }
        Ok(())
    }

    fn float(&mut self, value: f64) -> PyResult<()> {
        if !value.is_finite() {
            return Err(self.refuse(&format!("JSON has no number for {value}")));
        }
        self.text.push_str(&serde_json::to_string(&value).unwrap_or_default());
        Ok(())
    }

    fn elements<'py>(&mut self, elements: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        self.text.push('[');
        for (n, element) in elements.enumerate() {
            if n > 0 {
                self.text.push(',');
            }
            self.nested(n.to_string(), &element)?;
        }
        self.text.push(']');
        Ok(())
    }

    fn members(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        self.text.push('{');
        // A copy, because another thread may change the dictionary.
        for (n, item) in dict.items().iter().enumerate() {
            if n > 0 {
                self.text.push(',');
            }
            let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let Ok(key) = key.cast::<PyString>() else {
                let name = key.get_type().name()?;
                return Err(self.refuse(&format!("a key of type {name} is not a string")));
            };
            self.string(key)?;
            self.text.push(':');
            self.nested(key.to_string(), &value)?;
        }
        self.text.push('}');
        Ok(())
    }

    fn nested(&mut self, name: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.path.push(name);
        self.value(value)?;
        self.path.pop();
        Ok(())
    }

    /// The error for the value at the current place.
    fn refuse(&self, why: &str) -> PyErr {
        const SHOWN: usize = 8;
        let path: String = self.path.iter().take(SHOWN).map(|name| format!("/{name}")).collect();
        if path.is_empty() { invalid(why) } else { invalid(&format!("{path}: {why}")) }
    }
}
