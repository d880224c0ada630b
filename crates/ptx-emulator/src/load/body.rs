//! Function bodies: scopes, registers, labels and statements.

use super::{
    Loader,
    cursor::Mods,
    lex::Kind,
    operand::{Operand, operands},
};
use crate::{
    Error,
    module::{Function, Param},
    op::{Inst, Op, Ty},
};
use std::collections::BTreeMap;

/// A register; its width determines its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reg {
    pub(crate) ty: Ty,
    pub(crate) index: u16,
}

/// The meaning of a name in a function.
#[derive(Clone, Debug)]
pub(crate) enum Name<'a> {
    Reg(Reg),
    /// A vector register, as its elements.
    Vector(Vec<Reg>),
    Local(u32),
    Shared(u64),
    EntryParam(Param),
    FrameParam(Param),
    Prototype,
    Targets(Vec<&'a str>),
}

#[derive(Debug, Default)]
struct Scope<'a> {
    parent: Option<usize>,
    names: BTreeMap<&'a str, Name<'a>>,
    /// Register families such as `%r<17>`: type, first index and count.
    families: BTreeMap<&'a str, (Ty, u16, u16)>,
    labels: BTreeMap<&'a str, u32>,
}

/// A branch whose target was unknown when it was parsed.
#[derive(Debug)]
struct Fixup<'a> {
    inst: usize,
    scope: usize,
    labels: Vec<&'a str>,
    line: u32,
}

/// The function that is being parsed.
#[derive(Debug, Default)]
pub(crate) struct Body<'a> {
    pub(crate) function: Function,
    pub(crate) code: Vec<Inst>,
    start: usize,
    scopes: Vec<Scope<'a>>,
    current: usize,
    fixups: Vec<Fixup<'a>>,
}

impl<'a> Body<'a> {
    pub(crate) fn find(&self, name: &str) -> Option<Name<'a>> {
        let mut scope = Some(self.current);
        while let Some(index) = scope {
            let here = &self.scopes[index];
            if let Some(found) = here.names.get(name) {
                return Some(found.clone());
            }
            let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            // The name of a family may itself end in digits, so every split is tried.
            for split in name.len() - digits..name.len() {
                let (family, number) = name.split_at(split);
                let Some(&(ty, first, count)) = here.families.get(family) else { continue };
                match number.parse::<u16>() {
                    Ok(n) if n < count && (number.len() == 1 || !number.starts_with('0')) => {
                        return Some(Name::Reg(Reg { ty, index: first + n }));
                    }
                    _ => {}
                }
            }
            scope = here.parent;
        }
        None
    }

    /// Adds a branch to labels that may be defined later.
    pub(crate) fn branch(&mut self, labels: Vec<&'a str>, line: u32) {
        let (inst, scope) = (self.code.len(), self.current);
        self.fixups.push(Fixup { inst, scope, labels, line });
    }

    /// Adds a name to the current scope.
    fn add_name(&mut self, name: &'a str, value: Name<'a>, line: u32) -> Result<(), Error> {
        let scope = &mut self.scopes[self.current];
        if scope.names.insert(name, value).is_some() {
            return Err(Error::load(line, format!("{name} is declared twice")));
        }
        Ok(())
    }

    fn registers(&mut self, ty: Ty, count: u16, line: u32) -> Result<u16, Error> {
        let file = match ty.bits() {
            1 => &mut self.function.preds,
            64 => &mut self.function.regs64,
            _ => &mut self.function.regs32,
        };
        let first = *file;
        *file += u32::from(count);
        if *file > u32::from(u16::MAX) {
            return Err(Error::load(line, "more than 65535 registers"));
        }
        Ok(first as u16)
    }

    fn label(&self, scope: usize, name: &str, line: u32) -> Result<u32, Error> {
        let mut at = Some(scope);
        while let Some(index) = at {
            if let Some(&pc) = self.scopes[index].labels.get(name) {
                return Ok(pc);
            }
            at = self.scopes[index].parent;
        }
        Err(Error::load(line, format!("label {name} does not exist")))
    }

    fn finish(&mut self) -> Result<(), Error> {
        for fixup in std::mem::take(&mut self.fixups) {
            let mut found = Vec::with_capacity(fixup.labels.len());
            for name in &fixup.labels {
                found.push(self.label(fixup.scope, name, fixup.line)? + self.start as u32);
            }
            match &mut self.code[fixup.inst].op {
                Op::Bra { target } => *target = found[0],
                Op::BrxIdx { targets, .. } => *targets = found.into_boxed_slice(),
                _ => unreachable!("only branches are fixed up"),
            }
        }
        Ok(())
    }
}

impl<'a> Loader<'a> {
    /// Parses the body of function `index`.
    pub(crate) fn define(
        &mut self,
        index: u32,
        params: Vec<(&'a str, Param)>,
    ) -> Result<(), Error> {
        let mut function = self.module.functions[index as usize].clone();
        function.defined = true;
        function.start = self.module.code.len() as u32;
        let is_entry = function.is_entry;
        if is_entry {
            // The frame then holds only the parameters of calls.
            function.frame_bytes = 0;
        }
        self.entry_shared = self.shared_end;
        let mut body = Body {
            function,
            start: self.module.code.len(),
            scopes: vec![Scope::default()],
            ..Body::default()
        };
        for (name, param) in params {
            let value = if is_entry { Name::EntryParam(param) } else { Name::FrameParam(param) };
            body.add_name(name, value, self.cursor.line())?;
        }
        self.cursor.expect('{')?;
        loop {
            let line = self.cursor.line();
            if self.cursor.eat('{') {
                let parent = Some(body.current);
                body.current = body.scopes.len();
                body.scopes.push(Scope { parent, ..Scope::default() });
            } else if self.cursor.eat('}') {
                match body.scopes[body.current].parent {
                    Some(parent) => body.current = parent,
                    None => break,
                }
            } else {
                self.statement(&mut body, line)?;
            }
        }
        // The end of a function returns.
        let line = self.cursor.line();
        body.code.push(Inst { op: Op::Ret, guard: None, line });
        body.finish()?;
        if is_entry {
            body.function.shared_bytes = self.entry_shared as u32;
        }
        self.module.code.append(&mut body.code);
        self.module.functions[index as usize] = body.function;
        Ok(())
    }

    fn statement(&mut self, body: &mut Body<'a>, line: u32) -> Result<(), Error> {
        match self.cursor.peek() {
            Some(Kind::Directive(_)) => self.declaration(body, line),
            Some(Kind::Word(name)) if self.cursor.peek_at(1) == Some(Kind::Punct(':')) => {
                self.cursor.next()?;
                self.cursor.next()?;
                self.label(body, name, line)
            }
            Some(Kind::Punct(';')) => {
                self.cursor.next()?;
                Ok(())
            }
            Some(Kind::Punct('@')) => {
                self.cursor.next()?;
                let negated = self.cursor.eat('!');
                let name = self.cursor.word()?;
                let guard = match body.find(name) {
                    Some(Name::Reg(Reg { ty: Ty::Pred, index })) => (index, negated),
                    _ => return Err(Error::load(line, format!("guard {name} is not a predicate"))),
                };
                self.instruction(body, Some(guard), line)
            }
            Some(Kind::Word(_)) => self.instruction(body, None, line),
            _ => Err(self.cursor.unexpected("expected a statement")),
        }
    }

    fn instruction(
        &mut self,
        body: &mut Body<'a>,
        guard: Option<(u16, bool)>,
        line: u32,
    ) -> Result<(), Error> {
        let mut mods = Mods::new(self.cursor.word()?, line);
        let operands = operands(&mut self.cursor)?;
        self.cursor.expect(';')?;
        let op = self.decode(body, &mut mods, &operands)?;
        mods.done()?;
        body.code.push(Inst { op, guard, line });
        Ok(())
    }

    fn decode(
        &mut self,
        body: &mut Body<'a>,
        mods: &mut Mods<'a>,
        operands: &[Operand<'a>],
    ) -> Result<Op, Error> {
        let mut decoder = super::operand::Decoder {
            body,
            pools: &mut self.pools,
            globals: &self.globals,
            operands,
            line: mods.line,
        };
        if let Some(op) = decoder.arith(mods)? {
            return Ok(op);
        }
        if let Some(op) = decoder.convert(mods)? {
            return Ok(op);
        }
        if let Some(op) = decoder.memory(mods)? {
            return Ok(op);
        }
        if let Some(op) = decoder.control(mods)? {
            return Ok(op);
        }
        Err(Error::load(mods.line, format!("unknown instruction {}", mods.full)))
    }

    /// Parses the rest of a label: nothing, or a list that the label names.
    fn label(&mut self, body: &mut Body<'a>, name: &'a str, line: u32) -> Result<(), Error> {
        if self.cursor.eat_directive("branchtargets") {
            let mut targets = vec![self.cursor.word()?];
            while self.cursor.eat(',') {
                targets.push(self.cursor.word()?);
            }
            self.cursor.expect(';')?;
            return body.add_name(name, Name::Targets(targets), line);
        }
        if self.cursor.eat_directive("callprototype") {
            while !self.cursor.eat(';') {
                self.cursor.next()?;
            }
            // Another call sequence may declare the same prototype again.
            return body.add_name(name, Name::Prototype, line);
        }
        let pc = body.code.len() as u32;
        let scope = &mut body.scopes[body.current];
        if scope.labels.insert(name, pc).is_some() {
            return Err(Error::load(line, format!("label {name} is defined twice")));
        }
        Ok(())
    }

    fn declaration(&mut self, body: &mut Body<'a>, line: u32) -> Result<(), Error> {
        match self.cursor.directive()? {
            "reg" => self.reg(body, line),
            "local" => {
                let declared = self.declarator()?;
                let size = declared.size(line, false)?;
                self.cursor.expect(';')?;
                let end = &mut body.function.local_bytes;
                let offset = end.next_multiple_of(declared.align);
                if u64::from(offset) + u64::from(size) > 512 << 10 {
                    return Err(Error::load(line, "local memory exceeds 512 KiB per thread"));
                }
                *end = offset + size;
                body.add_name(declared.name, Name::Local(offset), line)
            }
            "shared" => {
                let declared = self.declarator()?;
                let size = declared.size(line, false)?;
                self.cursor.expect(';')?;
                let entry = body.function.is_entry;
                let address = self.place_shared(declared.align, size, line, entry)?;
                body.add_name(declared.name, Name::Shared(address), line)
            }
            "param" => loop {
                // Each call sequence has its own scope, but its frame stays reserved: the frames
                // are small, and so the end of a sequence needs no tracking.
                let mut frame = body.function.frame_bytes;
                let (name, param) = self.param(&mut frame)?;
                body.function.frame_bytes = frame;
                body.add_name(name, Name::FrameParam(param), line)?;
                if self.cursor.eat(';') {
                    return Ok(());
                }
                self.cursor.expect(',')?;
            },
            "pragma" => self.pragma(),
            "loc" | "file" => {
                self.cursor.skip_line(line);
                Ok(())
            }
            other => Err(Error::load(line, format!("unknown directive .{other} in a function"))),
        }
    }

    /// Parses register declarations after `.reg`.
    fn reg(&mut self, body: &mut Body<'a>, line: u32) -> Result<(), Error> {
        let mut vector = 1;
        if matches!(self.cursor.peek(), Some(Kind::Directive("v2" | "v4"))) {
            vector = if self.cursor.directive()? == "v2" { 2 } else { 4 };
        }
        let ty = self.cursor.ty()?;
        loop {
            let name = self.cursor.word()?;
            if self.cursor.eat('<') {
                let count = u16::try_from(self.cursor.int()?)
                    .map_err(|_| Error::load(line, "more than 65535 registers"))?;
                self.cursor.expect('>')?;
                if vector != 1 {
                    return Err(Error::load(line, "a family of vector registers"));
                }
                let first = body.registers(ty, count, line)?;
                let scope = &mut body.scopes[body.current];
                if scope.families.insert(name, (ty, first, count)).is_some() {
                    return Err(Error::load(line, format!("{name} is declared twice")));
                }
            } else {
                let first = body.registers(ty, vector, line)?;
                let mut regs = (0..vector).map(|i| Reg { ty, index: first + i });
                let value = match vector {
                    1 => Name::Reg(Reg { ty, index: first }),
                    _ => Name::Vector(regs.by_ref().collect()),
                };
                body.add_name(name, value, line)?;
            }
            if self.cursor.eat(';') {
                return Ok(());
            }
            self.cursor.expect(',')?;
        }
    }
}
