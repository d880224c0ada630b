use std::collections::BTreeMap;
use std::path::Path;

use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Error, Result, bf16, f16};
use serde::Deserialize;

/// The cases and tensors of a reference file.
#[derive(Debug)]
pub struct Reference {
    records: Vec<Record>,
    tensors: BTreeMap<String, Value>,
}

/// A case: names of arguments and results with the keys of their tensors.
#[derive(Debug, Deserialize)]
pub struct Record {
    /// The case's unique name.
    pub name: String,
    /// PyTorch's name of the operator.
    pub op: String,
    /// The half precision type of inputs and results, if it is a case of halves: `bf16` or `f16`.
    pub dtype: Option<String>,
    /// The parameters, under PyTorch's names.
    pub params: serde_json::Map<String, serde_json::Value>,
    /// The tensor arguments.
    pub inputs: BTreeMap<String, String>,
    /// The results.
    pub outputs: BTreeMap<String, String>,
    /// The incoming gradient of each result.
    pub grad_outputs: BTreeMap<String, String>,
    /// The gradient of each differentiable argument.
    pub grads: BTreeMap<String, String>,
}

impl Record {
    /// Returns the float types in which the case runs.
    ///
    /// # Errors
    ///
    /// The type of halves has another name.
    pub fn dtypes(&self) -> Result<Vec<DType>> {
        let Some(name) = &self.dtype else { return Ok(vec![DType::F32, DType::F64]) };
        let half = [DType::BF16, DType::F16].into_iter().find(|dtype| dtype.name() == name);
        let unknown = || Error::invalid("conformance", format!("expected bf16 or f16, got {name}"));
        Ok(vec![half.ok_or_else(unknown)?])
    }
}

impl Reference {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a whole safetensors file, or has no list of cases.
    pub fn read(path: &Path) -> Result<Reference> {
        let invalid =
            |error: String| Error::invalid("conformance", format!("{}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| invalid(error.to_string()))?;
        Self::parse(&bytes).map_err(invalid)
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    ///
    /// The bytes are not a whole safetensors file, or have no list of cases.
    pub(super) fn parse(bytes: &[u8]) -> Result<Reference, String> {
        let (_, header) = safetensors::SafeTensors::read_metadata(bytes)
            .map_err(|error| format!("not a safetensors file: {error}"))?;
        let file = safetensors::SafeTensors::deserialize(bytes)
            .map_err(|error| format!("not a whole safetensors file: {error}"))?;
        let cases = header
            .metadata()
            .as_ref()
            .and_then(|metadata| metadata.get("cases"))
            .ok_or("the metadata has no key `cases`")?;
        let records =
            serde_json::from_str(cases).map_err(|error| format!("the list of cases: {error}"))?;
        let mut tensors = BTreeMap::new();
        for (key, view) in file.tensors() {
            let tensor = tensor(view.dtype(), view.shape(), view.data())
                .map_err(|error| format!("tensor {key}: {error}"))?;
            tensors.insert(key, tensor);
        }
        Ok(Reference { records, tensors })
    }

    /// Returns the cases in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the tensor with this key.
    ///
    /// # Errors
    ///
    /// There is no such tensor.
    pub fn tensor(&self, key: &str) -> Result<Value> {
        let tensor = self.tensors.get(key).cloned();
        tensor.ok_or_else(|| Error::invalid("conformance", format!("the file has no tensor {key}")))
    }
}

fn tensor(dtype: safetensors::Dtype, shape: &[usize], bytes: &[u8]) -> Result<Value, String> {
    // The file's data need not be aligned.
    fn values<const N: usize, T>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
        let (whole, _) = bytes.as_chunks::<N>();
        whole.iter().map(|&bytes| of(bytes)).collect()
    }
    let tensor = match dtype {
        safetensors::Dtype::F32 => Value::from_slice(&values(bytes, f32::from_le_bytes), shape),
        safetensors::Dtype::F64 => Value::from_slice(&values(bytes, f64::from_le_bytes), shape),
        safetensors::Dtype::BF16 => Value::from_slice(&values(bytes, bf16::from_le_bytes), shape),
        safetensors::Dtype::F16 => Value::from_slice(&values(bytes, f16::from_le_bytes), shape),
        safetensors::Dtype::I64 => Value::from_slice(&values(bytes, i64::from_le_bytes), shape),
        safetensors::Dtype::U8 => Value::from_slice(bytes, shape),
        safetensors::Dtype::BOOL => {
            let bools: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
            Value::from_bools(&bools, shape)
        }
        other => return Err(format!("type {other:?} is not supported ({:?} are)", DType::ALL)),
    };
    tensor.map_err(|error| error.to_string())
}
