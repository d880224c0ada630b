//! The loader: from PTX text to a [`Module`].

mod arith;
mod body;
mod control;
mod convert;
mod cursor;
mod float;
mod lex;
mod memory;
mod operand;
mod vars;

use crate::{
    Error, Module,
    module::{Function, Param, Relocation, Symbol},
};
use cursor::Cursor;
use lex::Kind;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

/// The start of dynamic shared memory: after any static shared memory, so that an overrun of one
/// never reaches the other.
pub(crate) const DYNAMIC_SHARED: u64 = 1 << 20;

/// The base of code addresses, to which the index of the function is added.
pub(crate) const CODE_WINDOW: u64 = 0xc0de_0000_0000;

/// The entry points that may use approximate instructions (`.approx`, `.ftz` and similar ones).
///
/// Name only entry points whose results are declared not guaranteed: the emulator's approximations
/// are good, but they are not the hardware's bits.
#[derive(Clone, Debug, Default)]
pub enum Approximate {
    /// None: an approximate instruction is a load error.
    #[default]
    Refuse,
    /// All of them.
    Allow,
    /// The listed ones.
    Only(BTreeSet<String>),
}

impl Approximate {
    fn allows(&self, entry: &str) -> bool {
        match self {
            Approximate::Refuse => false,
            Approximate::Allow => true,
            Approximate::Only(names) => names.contains(entry),
        }
    }
}

/// The meaning of a name at module level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Global {
    Variable(u32),
    /// An address in shared memory.
    Shared(u64),
    Function(u32),
}

/// Immediates, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) c32: Vec<u32>,
    c32_index: BTreeMap<u32, u32>,
    pub(crate) c64: Vec<u64>,
    c64_index: BTreeMap<u64, u32>,
    pub(crate) relocations: Vec<Relocation>,
}

impl Pools {
    pub(crate) fn c32(&mut self, value: u32) -> u32 {
        *self.c32_index.entry(value).or_insert_with(|| {
            self.c32.push(value);
            self.c32.len() as u32 - 1
        })
    }

    pub(crate) fn c64(&mut self, value: u64) -> u32 {
        *self.c64_index.entry(value).or_insert_with(|| {
            self.c64.push(value);
            self.c64.len() as u32 - 1
        })
    }

    /// Adds a constant that becomes the address of `symbol` plus `addend`, and returns its index.
    pub(crate) fn address(&mut self, symbol: Symbol, addend: i64) -> u32 {
        let same = |r: &&Relocation| r.symbol == symbol && r.addend == addend;
        if let Some(known) = self.relocations.iter().find(same) {
            return known.constant;
        }
        let constant = self.c64.len() as u32;
        self.c64.push(0);
        self.relocations.push(Relocation { constant, symbol, addend });
        constant
    }
}

/// The state of the loader while it reads a module.
#[derive(Debug)]
pub(crate) struct Loader<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) module: Module,
    pub(crate) pools: Pools,
    pub(crate) globals: BTreeMap<&'a str, Global>,
    /// The end of the shared variables that belong to no entry point.
    pub(crate) shared_end: u64,
    /// The end of all shared variables so far.
    pub(crate) shared_high: u64,
    /// The end of the shared variables of the current entry point.
    pub(crate) entry_shared: u64,
}

impl Module {
    /// Parses PTX text; approximate instructions are an error.
    ///
    /// # Errors
    ///
    /// [`Error::Load`], naming the line, for anything that is not PTX or that this emulator does
    /// not execute exactly, including unknown directives, instructions and modifiers.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_ptx_emulator::Module;
    ///
    /// let module = Module::parse(
    ///     ".version 8.5\n.target sm_70\n.address_size 64\n\
    ///      .visible .entry noop() { ret; }",
    /// )?;
    /// assert_eq!(module.entries().collect::<Vec<_>>(), ["noop"]);
    /// # Ok::<(), samebits_ptx_emulator::Error>(())
    /// ```
    pub fn parse(source: &str) -> Result<Module, Error> {
        Module::parse_with(source, &Approximate::Refuse)
    }

    /// Parses PTX text, with some approximate instructions allowed.
    ///
    /// # Errors
    ///
    /// As [`parse`](Module::parse), except that the entry points named by `approximate` may use
    /// approximate instructions.
    pub fn parse_with(source: &str, approximate: &Approximate) -> Result<Module, Error> {
        let mut loader = Loader {
            cursor: Cursor::new(lex::lex(source)?),
            module: Module {
                code: Vec::new(),
                functions: Vec::new(),
                by_name: BTreeMap::new(),
                c32: Vec::new(),
                c64: Vec::new(),
                relocations: Vec::new(),
                variables: Vec::new(),
                target: String::new(),
                isa: (0, 0),
                traced: OnceLock::new(),
            },
            pools: Pools::default(),
            globals: BTreeMap::new(),
            shared_end: 0,
            shared_high: 0,
            entry_shared: 0,
        };
        loader.header()?;
        while loader.cursor.peek().is_some() {
            loader.item()?;
        }
        let mut module = loader.module;
        module.c32 = loader.pools.c32;
        module.c64 = loader.pools.c64;
        module.relocations = loader.pools.relocations;
        for function in &mut module.functions {
            if function.is_entry {
                function.shared_bytes = function.shared_bytes.max(loader.shared_end as u32);
            }
        }
        check_calls(&module)?;
        check_approximate(&module, approximate)?;
        Ok(module)
    }
}

impl<'a> Loader<'a> {
    fn header(&mut self) -> Result<(), Error> {
        if !self.cursor.eat_directive("version") {
            return Err(self.cursor.unexpected("expected .version"));
        }
        // The lexer reads "8.5" as a decimal fraction, which is exact enough for a version.
        let line = self.cursor.line();
        let version = match self.cursor.next()? {
            Kind::F64(bits) => (f64::from_bits(bits) * 10.0).round() as u32,
            Kind::Int(major) => u32::try_from(major).unwrap_or(u32::MAX / 10) * 10,
            _ => return Err(Error::load(line, "malformed .version")),
        };
        self.module.isa = (version / 10, version % 10);
        if !(60..100).contains(&version) {
            return Err(Error::load(line, "PTX ISA version is not in 6.0 to 9.9"));
        }
        if !self.cursor.eat_directive("target") {
            return Err(self.cursor.unexpected("expected .target"));
        }
        self.module.target = self.cursor.word()?.to_owned();
        while self.cursor.eat(',') {
            let line = self.cursor.line();
            match self.cursor.word()? {
                "debug" => {}
                other => return Err(Error::load(line, format!("unknown target {other:?}"))),
            }
        }
        if self.cursor.eat_directive("address_size") && self.cursor.int()? != 64 {
            return Err(self.cursor.error("only 64-bit addresses are supported"));
        }
        Ok(())
    }

    /// Parses one item at module level.
    fn item(&mut self) -> Result<(), Error> {
        let line = self.cursor.line();
        let mut external = false;
        loop {
            match self.cursor.directive()? {
                "visible" | "weak" | "common" => {}
                "extern" => external = true,
                "entry" => return self.function(true, external),
                "func" => return self.function(false, external),
                "global" => return self.module_variable(false, external),
                "const" => return self.module_variable(true, external),
                "shared" => return self.module_shared(external),
                "file" | "loc" => {
                    self.cursor.skip_line(line);
                    return Ok(());
                }
                "pragma" => return self.pragma(),
                "section" => {
                    // Debug information, which is not executed. Its name may be a directive.
                    self.cursor.next()?;
                    return self.cursor.skip_braces();
                }
                other => return Err(Error::load(line, format!("unknown directive .{other}"))),
            }
        }
    }

    pub(crate) fn pragma(&mut self) -> Result<(), Error> {
        while !self.cursor.eat(';') {
            self.cursor.next()?;
        }
        Ok(())
    }

    /// Parses an entry point or function, after its `.entry` or `.func`.
    fn function(&mut self, is_entry: bool, external: bool) -> Result<(), Error> {
        let line = self.cursor.line();
        let mut function = Function { is_entry, line, ..Function::default() };
        let mut frame = 0;
        let mut names = Vec::new();
        if !is_entry && self.cursor.eat('(') {
            self.params(&mut function.rets, &mut frame, &mut names)?;
        }
        let name = self.cursor.word()?;
        function.name = name.to_owned();
        if self.cursor.eat('(') {
            self.params(&mut function.params, &mut frame, &mut names)?;
        }
        function.param_bytes = frame;
        function.frame_bytes = frame;
        loop {
            let line = self.cursor.line();
            match self.cursor.peek() {
                Some(Kind::Directive("noreturn")) => {
                    self.cursor.next()?;
                }
                Some(Kind::Directive("maxntid" | "reqntid")) => {
                    let required = self.cursor.directive()? == "reqntid";
                    let mut dims = [1u32; 3];
                    for (axis, dim) in dims.iter_mut().enumerate() {
                        if axis > 0 && !self.cursor.eat(',') {
                            break;
                        }
                        *dim = u32::try_from(self.cursor.int()?)
                            .map_err(|_| Error::load(line, "block size out of range"))?;
                    }
                    let product = dims.iter().fold(1u32, |p, &d| p.saturating_mul(d));
                    function.max_threads = Some(product);
                    function.required_threads = required.then_some(dims);
                }
                Some(Kind::Directive("minnctapersm" | "maxnctapersm" | "maxnreg")) => {
                    self.cursor.next()?;
                    self.cursor.int()?;
                }
                Some(Kind::Directive("pragma")) => {
                    self.cursor.next()?;
                    self.pragma()?;
                }
                _ => break,
            }
        }
        let index = self.declare(name, function, line)?;
        if self.cursor.eat(';') {
            return Ok(());
        }
        if external {
            return Err(Error::load(line, format!("external function {name} has a body")));
        }
        self.define(index, names)
    }

    /// Registers a declaration, which may repeat an earlier one.
    fn declare(&mut self, name: &'a str, function: Function, line: u32) -> Result<u32, Error> {
        match self.globals.get(name) {
            None => {
                let index = self.module.functions.len() as u32;
                self.globals.insert(name, Global::Function(index));
                self.module.by_name.insert(name.to_owned(), index);
                self.module.functions.push(function);
                Ok(index)
            }
            Some(&Global::Function(index)) => {
                let known = &mut self.module.functions[index as usize];
                if known.defined {
                    return Err(Error::load(line, format!("{name} is defined twice")));
                }
                if known.params != function.params || known.rets != function.rets {
                    return Err(Error::load(line, format!("{name} is declared differently")));
                }
                *known = function;
                Ok(index)
            }
            Some(_) => Err(Error::load(line, format!("{name} is already a variable"))),
        }
    }

    /// Parses a parameter list after its opening parenthesis.
    pub(crate) fn params(
        &mut self,
        params: &mut Vec<Param>,
        frame: &mut u32,
        names: &mut Vec<(&'a str, Param)>,
    ) -> Result<(), Error> {
        if self.cursor.eat(')') {
            return Ok(());
        }
        loop {
            if !self.cursor.eat_directive("param") {
                return Err(self.cursor.unexpected("expected .param"));
            }
            let (name, param) = self.param(frame)?;
            params.push(param);
            names.push((name, param));
            if self.cursor.eat(')') {
                return Ok(());
            }
            self.cursor.expect(',')?;
        }
    }

    /// Parses a parameter after its `.param`, and places it at the next suitable offset of `frame`.
    pub(crate) fn param(&mut self, frame: &mut u32) -> Result<(&'a str, Param), Error> {
        let line = self.cursor.line();
        let mut declared = self.declarator()?;
        // Attributes of pointers do not affect the parameter's own layout.
        let size = declared.size(line, false)?;
        let name = std::mem::take(&mut declared.name);
        let offset = frame.next_multiple_of(declared.align.max(1));
        *frame = offset
            .checked_add(size)
            .filter(|&end| end <= 1 << 16)
            .ok_or_else(|| Error::load(line, "parameters exceed 64 KiB"))?;
        Ok((name, Param { offset, size }))
    }
}

/// Returns the functions that an entry point can reach.
fn reachable(module: &Module, entry: u32) -> BTreeSet<u32> {
    let mut seen = BTreeSet::from([entry]);
    let mut open = vec![entry];
    while let Some(index) = open.pop() {
        let function = &module.functions[index as usize];
        let everything = 0..module.functions.len() as u32;
        let indirect = everything.filter(|&callee| {
            function.calls_indirectly && !module.functions[callee as usize].is_entry
        });
        for callee in function.calls.iter().copied().chain(indirect) {
            if seen.insert(callee) {
                open.push(callee);
            }
        }
    }
    seen
}

fn check_calls(module: &Module) -> Result<(), Error> {
    for function in &module.functions {
        for &callee in &function.calls {
            let callee = &module.functions[callee as usize];
            if !callee.defined {
                let message = format!("{} calls {}, which has no body", function.name, callee.name);
                return Err(Error::load(callee.line, message));
            }
        }
    }
    Ok(())
}

fn check_approximate(module: &Module, allowed: &Approximate) -> Result<(), Error> {
    for (index, function) in module.functions.iter().enumerate() {
        if !function.is_entry || allowed.allows(&function.name) {
            continue;
        }
        for callee in reachable(module, index as u32) {
            if let Some((line, text)) = &module.functions[callee as usize].approximate {
                let message = format!(
                    "{text} is approximate, and the entry point {} is not declared \
                     not guaranteed: use an exact instruction, or declare it",
                    function.name
                );
                return Err(Error::load(*line, message));
            }
        }
    }
    Ok(())
}
