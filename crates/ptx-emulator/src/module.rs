//! A loaded PTX module, before it is placed on a device.

use crate::{counts::Traced, op::Inst};
use std::{collections::BTreeMap, sync::OnceLock};

/// A PTX module, parsed and decoded.
///
/// Place it on a [`Device`](crate::Device) with [`Device::load`](crate::Device::load).
#[derive(Debug)]
pub struct Module {
    pub(crate) code: Vec<Inst>,
    pub(crate) functions: Vec<Function>,
    pub(crate) by_name: BTreeMap<String, u32>,
    /// The 32-bit immediates, shared by all functions.
    pub(crate) c32: Vec<u32>,
    /// The 64-bit immediates; some become addresses when the module is placed.
    pub(crate) c64: Vec<u64>,
    pub(crate) relocations: Vec<Relocation>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) target: String,
    pub(crate) isa: (u32, u32),
    /// The facts about the code that counting needs; filled by the first launch that counts.
    pub(crate) traced: OnceLock<Vec<Traced>>,
}

/// A 64-bit constant that is an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub(crate) constant: u32,
    pub(crate) symbol: Symbol,
    pub(crate) addend: i64,
}

/// A symbol whose address is known only on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    Variable(u32),
    Function(u32),
}

/// A variable in global or constant memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) constant: bool,
    pub(crate) align: u32,
    pub(crate) data: Vec<u8>,
    /// The addresses inside the data: offset, size, symbol, addend.
    pub(crate) pointers: Vec<(u32, u32, Symbol, i64)>,
}

/// A parameter and its place in the parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The first byte in the parameter buffer.
    pub offset: u32,
    /// The length in bytes.
    pub size: u32,
}

/// An entry point or a device function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_entry: bool,
    pub(crate) defined: bool,
    pub(crate) start: u32,
    pub(crate) params: Vec<Param>,
    pub(crate) param_bytes: u32,
    /// The return parameters of a device function, in its parameter frame.
    pub(crate) rets: Vec<Param>,
    /// The size of a device function's parameter frame in bytes, including its calls.
    pub(crate) frame_bytes: u32,
    pub(crate) regs32: u32,
    pub(crate) regs64: u32,
    pub(crate) preds: u32,
    pub(crate) local_bytes: u32,
    /// The static shared memory that this function itself names.
    pub(crate) shared_bytes: u32,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) calls: Vec<u32>,
    pub(crate) calls_indirectly: bool,
    /// The first approximate instruction, if there is one: line and mnemonic.
    pub(crate) approximate: Option<(u32, String)>,
    pub(crate) line: u32,
}

/// A description of an entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// The size of static shared memory in bytes.
    pub shared_bytes: u32,
    /// The size of local memory per thread in bytes.
    pub local_bytes: u32,
    /// The number of registers per thread, counting a 64-bit register as two. These are virtual
    /// registers, so it is an upper bound.
    pub registers: u32,
    /// `.maxntid`, as a product, if given.
    pub max_threads: Option<u32>,
    /// The size of the module's constants in bytes.
    pub const_bytes: u32,
}

impl Module {
    /// Returns the names of the entry points, in alphabetical order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.by_name
            .iter()
            .filter(|(_, index)| self.functions[**index as usize].is_entry)
            .map(|(name, _)| name.as_str())
    }

    /// Returns a description of the entry point `name`.
    pub fn entry(&self, name: &str) -> Option<EntryInfo> {
        let function = self.function(name)?;
        Some(EntryInfo {
            params: function.params.clone(),
            shared_bytes: function.shared_bytes,
            local_bytes: function.local_bytes,
            registers: function.regs32 + 2 * function.regs64,
            max_threads: function.max_threads,
            const_bytes: self
                .variables
                .iter()
                .filter(|variable| variable.constant)
                .map(|variable| variable.data.len() as u32)
                .sum(),
        })
    }

    /// Returns the `.target` of the module, for example `sm_70`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the `.version` of the module: the PTX ISA it was written for.
    pub fn isa(&self) -> (u32, u32) {
        self.isa
    }

    pub(crate) fn traced(&self) -> &[Traced] {
        self.traced.get_or_init(|| self.code.iter().map(Traced::new).collect())
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        let index = *self.by_name.get(name)?;
        Some(&self.functions[index as usize]).filter(|function| function.is_entry)
    }
}
