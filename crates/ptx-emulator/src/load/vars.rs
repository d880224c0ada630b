//! Variables and their initial values.

use super::{Global, Loader, lex::Kind};
use crate::{
    Error,
    module::{Symbol, Variable},
    op::Ty,
};

/// The size of the largest variable: a mistyped array size must not exhaust the host's memory.
const MAX_BYTES: u32 = 1 << 26;

/// A declared type, name and array shape.
#[derive(Debug, Default)]
pub(crate) struct Declarator<'a> {
    pub(crate) name: &'a str,
    pub(crate) align: u32,
    pub(crate) ty: Option<Ty>,
    vector: u32,
    /// The array dimensions; an empty pair of brackets is zero.
    dims: Vec<u64>,
}

impl Declarator<'_> {
    /// Returns the size in bytes. With `open`, an array may lack its first dimension.
    pub(crate) fn size(&self, line: u32, open: bool) -> Result<u32, Error> {
        let ty = self.ty.ok_or_else(|| Error::load(line, "the type is missing"))?;
        let mut size = u64::from(ty.bytes() * self.vector.max(1));
        for &dim in &self.dims {
            if dim == 0 && !open {
                return Err(Error::load(line, format!("array {} has no size", self.name)));
            }
            size = size.saturating_mul(dim);
        }
        u32::try_from(size)
            .ok()
            .filter(|&size| size <= MAX_BYTES)
            .ok_or_else(|| Error::load(line, format!("{} is too large", self.name)))
    }
}

impl<'a> Loader<'a> {
    /// Parses alignment, type, name and dimensions, in PTX's order.
    pub(crate) fn declarator(&mut self) -> Result<Declarator<'a>, Error> {
        let mut declared = Declarator::default();
        let mut align = 0;
        loop {
            let line = self.cursor.line();
            match self.cursor.peek() {
                Some(Kind::Directive("align")) => {
                    self.cursor.next()?;
                    align = self.cursor.int()?;
                    if !align.is_power_of_two() || align > 4096 {
                        return Err(Error::load(line, "alignment is not a power of two"));
                    }
                }
                Some(Kind::Directive("v2" | "v4")) => {
                    declared.vector = if self.cursor.directive()? == "v2" { 2 } else { 4 };
                }
                // `.ptr .global .align 4` describes the target of a pointer parameter.
                Some(Kind::Directive("ptr")) => {
                    self.cursor.next()?;
                    if matches!(
                        self.cursor.peek(),
                        Some(Kind::Directive("global" | "shared" | "local" | "const"))
                    ) {
                        self.cursor.next()?;
                    }
                    if self.cursor.eat_directive("align") {
                        self.cursor.int()?;
                    }
                }
                Some(Kind::Directive(name)) => {
                    let ty = Ty::parse(name).filter(|&ty| ty != Ty::Pred).ok_or_else(|| {
                        Error::load(line, format!("unknown type or attribute .{name}"))
                    })?;
                    declared.ty = Some(ty);
                    self.cursor.next()?;
                }
                _ => break,
            }
        }
        declared.name = self.cursor.word()?;
        while self.cursor.eat('[') {
            if self.cursor.eat(']') {
                declared.dims.push(0);
                continue;
            }
            declared.dims.push(self.cursor.int()?);
            self.cursor.expect(']')?;
        }
        let natural = declared.ty.map_or(1, Ty::bytes) * declared.vector.max(1);
        declared.align = (align as u32).max(natural);
        Ok(declared)
    }

    /// Parses a `.global` or `.const` variable, after its state space.
    pub(crate) fn module_variable(&mut self, constant: bool, external: bool) -> Result<(), Error> {
        loop {
            let line = self.cursor.line();
            let declared = self.declarator()?;
            if external {
                let message =
                    format!("external variable {}: modules are not linked", declared.name);
                return Err(Error::load(line, message));
            }
            let has_value = self.cursor.peek() == Some(Kind::Punct('='));
            let mut data = vec![0; declared.size(line, has_value)? as usize];
            let mut pointers = Vec::new();
            if self.cursor.eat('=') {
                let grows = declared.dims.first() == Some(&0);
                let ty = declared.ty.expect("size has checked that there is a type");
                self.initializer(ty, &mut data, grows, &mut pointers)?;
            }
            self.declare_global(declared.name, line, |loader| {
                loader.module.variables.push(Variable {
                    name: declared.name.to_owned(),
                    constant,
                    align: declared.align,
                    data,
                    pointers,
                });
                Global::Variable(loader.module.variables.len() as u32 - 1)
            })?;
            if self.cursor.eat(';') {
                return Ok(());
            }
            self.cursor.expect(',')?;
        }
    }

    /// Parses a `.shared` variable at module level.
    pub(crate) fn module_shared(&mut self, external: bool) -> Result<(), Error> {
        let line = self.cursor.line();
        let declared = self.declarator()?;
        self.cursor.expect(';')?;
        let address = if external {
            super::DYNAMIC_SHARED
        } else {
            let size = declared.size(line, false)?;
            self.place_shared(declared.align, size, line, false)?
        };
        self.declare_global(declared.name, line, |_| Global::Shared(address))
    }

    /// Reserves space for a shared variable. The variables of an entry point may overlap those of
    /// other entry points; those of the module overlap nothing.
    pub(crate) fn place_shared(
        &mut self,
        align: u32,
        size: u32,
        line: u32,
        entry: bool,
    ) -> Result<u64, Error> {
        let start = if entry { self.entry_shared } else { self.shared_high.max(self.shared_end) };
        let address = start.next_multiple_of(u64::from(align.max(1)));
        let end = address + u64::from(size);
        if end > super::DYNAMIC_SHARED {
            return Err(Error::load(line, "static shared memory exceeds 1 MiB"));
        }
        self.shared_high = self.shared_high.max(end);
        if entry {
            self.entry_shared = end;
        } else {
            self.shared_end = end;
        }
        Ok(address)
    }

    fn declare_global(
        &mut self,
        name: &'a str,
        line: u32,
        make: impl FnOnce(&mut Self) -> Global,
    ) -> Result<(), Error> {
        if self.globals.contains_key(name) {
            return Err(Error::load(line, format!("{name} is declared twice")));
        }
        let global = make(self);
        self.globals.insert(name, global);
        Ok(())
    }

    /// Parses a value or nested braces of values. With `grows`, the data takes the initializer's
    /// size.
    fn initializer(
        &mut self,
        ty: Ty,
        data: &mut Vec<u8>,
        grows: bool,
        pointers: &mut Vec<(u32, u32, Symbol, i64)>,
    ) -> Result<(), Error> {
        let width = ty.bytes() as usize;
        let (mut at, mut depth) = (0, 0u32);
        loop {
            let line = self.cursor.line();
            if self.cursor.eat('{') {
                depth += 1;
                continue;
            }
            if depth > 0 && self.cursor.eat('}') {
                depth -= 1;
            } else {
                if grows && at + width > data.len() && data.len() < MAX_BYTES as usize {
                    data.resize(at + width, 0);
                }
                let Some(slot) = data.get_mut(at..at + width) else {
                    return Err(Error::load(line, "the initializer has too many values"));
                };
                match self.initial_value(ty)? {
                    Initial::Bits(bits) => slot.copy_from_slice(&bits.to_le_bytes()[..width]),
                    Initial::Pointer(symbol, addend) => {
                        pointers.push((at as u32, width as u32, symbol, addend));
                    }
                }
                at += width;
            }
            if depth == 0 {
                return Ok(());
            }
            if !self.cursor.eat(',') && self.cursor.peek() != Some(Kind::Punct('}')) {
                return Err(self.cursor.unexpected("expected ',' or '}'"));
            }
        }
    }

    fn initial_value(&mut self, ty: Ty) -> Result<Initial, Error> {
        let line = self.cursor.line();
        match self.cursor.peek() {
            Some(Kind::Int(_) | Kind::Punct('-')) => {
                if let (Some(Kind::F64(_)), true) = (self.cursor.peek_at(1), ty.is_float()) {
                    self.cursor.next()?;
                    let Kind::F64(bits) = self.cursor.next()? else { unreachable!("just seen") };
                    return float_bits(ty, -f64::from_bits(bits), line);
                }
                let value = self.cursor.int()?;
                if ty.is_float() {
                    return float_bits(ty, value as i64 as f64, line);
                }
                Ok(Initial::Bits(value))
            }
            Some(Kind::F32(bits)) if ty.bits() == 32 => {
                self.cursor.next()?;
                Ok(Initial::Bits(u64::from(bits)))
            }
            Some(Kind::F64(bits)) if ty.is_float() => {
                self.cursor.next()?;
                float_bits(ty, f64::from_bits(bits), line)
            }
            Some(Kind::Word("generic")) => {
                self.cursor.next()?;
                self.cursor.expect('(')?;
                let value = self.initial_symbol()?;
                self.cursor.expect(')')?;
                Ok(value)
            }
            Some(Kind::Word(_)) => self.initial_symbol(),
            _ => Err(self.cursor.unexpected("expected an initial value")),
        }
    }

    fn initial_symbol(&mut self) -> Result<Initial, Error> {
        let line = self.cursor.line();
        let name = self.cursor.word()?;
        let mut addend = 0i64;
        if self.cursor.eat('+') {
            addend = self.cursor.int()? as i64;
        }
        match self.globals.get(name) {
            Some(&Global::Variable(index)) => Ok(Initial::Pointer(Symbol::Variable(index), addend)),
            Some(&Global::Function(index)) => Ok(Initial::Pointer(Symbol::Function(index), addend)),
            _ => Err(Error::load(line, format!("{name} is not a known variable or function"))),
        }
    }
}

enum Initial {
    Bits(u64),
    Pointer(Symbol, i64),
}

fn float_bits(ty: Ty, value: f64, line: u32) -> Result<Initial, Error> {
    match ty {
        Ty::F32 => Ok(Initial::Bits(u64::from((value as f32).to_bits()))),
        Ty::F64 => Ok(Initial::Bits(value.to_bits())),
        _ => Err(Error::load(line, "half-precision initial values are not supported")),
    }
}
