//! A template as instructions of minijinja's machine, changed so that they do what Python does.
//!
//! minijinja parses the template and runs it. Its operators and loops differ from Python's in small things: `+` and `~`
//! print floats otherwise, `in` takes everything, a loop over `None` runs not at all instead of failing. So each such
//! instruction becomes a call of one of our [`OPERATORS`], by the machine's own instruction for filters, under names
//! that no template can write. This rests on the unstable interface of one version of minijinja, which `Cargo.toml`
//! pins.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::machinery::{self, CodeGenerator, Instruction, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Object, ObjectRepr};
use minijinja::{AutoEscape, Environment, Error, State, Value};

use super::arguments::split;
use super::operators::{OPERATORS, constant};
use super::{MARKS, fail, room};

/// The filter whose blocks are the generation blocks: it puts marks around their text.
pub(super) const GENERATION: &str = "_generation_";

/// The stack of the thread that compiles, for the machine's parser recurs. Little of it is ever touched.
const STACK: usize = 256 << 20;

self_cell::self_cell!(
    /// Compiled instructions, which borrow the template's text.
    pub(super) struct Program {
        owner: String,
        #[covariant]
        dependent: Instructions,
    }
);

impl Program {
    /// Compiles a text that [`prepare`](super::source::prepare) has made.
    pub(super) fn compile(source: String, env: &Environment<'static>) -> Result<Self, Error> {
        std::thread::scope(|scope| {
            let compiling = std::thread::Builder::new()
                .name("chat template".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, || Self::try_new(source, |source| instructions(source, env)));
            match compiling.map(|thread| thread.join()) {
                Ok(Ok(program)) => program,
                Ok(Err(_)) => fail("the parser failed"),
                Err(e) => fail(format!("no thread can be started: {e}")),
            }
        })
    }

    /// Runs the template.
    pub(super) fn run(&self, env: &Environment<'_>, variables: Value) -> Result<String, Error> {
        self.with_dependent(|source, instructions| {
            let mut text = String::with_capacity(source.len());
            let mut output = machinery::make_string_output(&mut text);
            let blocks = BTreeMap::new();
            machinery::eval(env, instructions, variables, &blocks, &mut output, AutoEscape::None)?;
            Ok(text)
        })
    }

    /// Whether the template has generation blocks.
    pub(super) fn marks_generation(&self) -> bool {
        all(self.borrow_dependent(), 0)
            .any(|instruction| matches!(instruction, Instruction::ApplyFilter(GENERATION, ..)))
    }

    /// Whether the template calls a function.
    pub(super) fn calls(&self, function: &str) -> bool {
        all(self.borrow_dependent(), 0)
            .any(|instruction| matches!(instruction, Instruction::CallFunction(name, _) if *name == function))
    }
}

/// The instructions from a place on.
fn all<'i, 'source>(
    code: &'i Instructions<'source>,
    from: u32,
) -> impl Iterator<Item = &'i Instruction<'source>> {
    (from..).map_while(|at| code.get(at))
}

fn instructions<'source>(
    source: &'source str,
    env: &Environment<'static>,
) -> Result<Instructions<'source>, Error> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    let name = "chat template";
    let tree = machinery::parse(source, name, syntax)?;
    let mut generator = CodeGenerator::new(name, source);
    generator.compile_stmt(&tree);
    let (old, _) = generator.finish();
    let new = Instructions::new(name, source);
    Rewriter { old: &old, state: &env.empty_state(), new, length: 0, line: 0 }.rewrite()
}

/// How many filters the machine caches, and the number of one that is not cached.
const CACHE: usize = 50;
const NOT_CACHED: u8 = u8::MAX;

struct Rewriter<'i, 'source> {
    old: &'i Instructions<'source>,
    state: &'i State<'i, 'i>,
    new: Instructions<'source>,
    /// How many instructions the new code has.
    length: u32,
    line: u16,
}

impl<'source> Rewriter<'_, 'source> {
    fn rewrite(mut self) -> Result<Instructions<'source>, Error> {
        let mut places = Vec::new();
        for (at, instruction) in all(self.old, 0).enumerate() {
            places.push(self.length);
            self.line = self.old.get_line(at as u32).and_then(|line| line.try_into().ok()).unwrap_or(0);
            self.rewrite_one(at as u32, instruction)?;
        }
        places.push(self.length);
        // Jumps go where their targets are now.
        for at in 0..self.length {
            if let Some(
                Instruction::Jump(target)
                | Instruction::JumpIfFalse(target)
                | Instruction::JumpIfFalseOrPop(target)
                | Instruction::JumpIfTrueOrPop(target)
                | Instruction::Iterate(target)
                | Instruction::BuildMacro(_, target, _),
            ) = self.new.get_mut(at)
                && let Some(place) = places.get(*target as usize)
            {
                *target = *place;
            }
        }
        Ok(self.new)
    }

    fn add(&mut self, instruction: Instruction<'source>) {
        self.new.add_with_line(instruction, self.line);
        self.length += 1;
    }

    /// Adds a call of an operator, which takes `count` values off the stack. `None` if their number lies on top.
    fn call(&mut self, operator: &'static str, count: Option<usize>) -> Result<(), Error> {
        let Ok(count) = count.map(u16::try_from).transpose() else {
            return fail("a list or a dict of the template is too long");
        };
        // Our operators have the last places of the cache.
        let place = OPERATORS.iter().position(|(name, _)| *name == operator);
        let id = place.map_or(NOT_CACHED, |place| (CACHE - 1 - place) as u8);
        self.add(Instruction::ApplyFilter(operator, count, id));
        Ok(())
    }

    fn rewrite_one(&mut self, at: u32, instruction: &Instruction<'source>) -> Result<(), Error> {
        match instruction {
            Instruction::Add => self.call("+", Some(2)),
            Instruction::Mul => self.call("*", Some(2)),
            Instruction::StringConcat => self.call("~", Some(2)),
            Instruction::Eq => self.call("==", Some(2)),
            Instruction::Ne => self.call("!=", Some(2)),
            Instruction::Lt => self.call("<", Some(2)),
            Instruction::Lte => self.call("<=", Some(2)),
            Instruction::Gt => self.call(">", Some(2)),
            Instruction::Gte => self.call(">=", Some(2)),
            Instruction::In => self.call("in!", Some(2)),
            Instruction::GetItem => self.call("[]", Some(2)),
            Instruction::Slice => self.call("[:]", Some(4)),
            Instruction::BuildList(count) => self.call("list!", *count),
            Instruction::BuildTuple(count) => self.call("tuple!", *count),
            Instruction::BuildMap(pairs) => self.call("dict!", Some(pairs * 2)),
            Instruction::IsUndefined => self.call(MISSING, Some(1)),
            Instruction::CompareAndPreserve(_) => {
                fail("comparisons cannot be chained: write `and` between two")
            }
            Instruction::CallMethod("changed" | "cycle", _) => fail("`loop` has no methods"),
            Instruction::PushLoop(flags) if flags & RECURSIVE != 0 => fail("a loop cannot be recursive"),
            Instruction::PushLoop(_) => {
                self.call("for!", Some(1))?;
                self.add(instruction.clone());
                Ok(())
            }
            Instruction::SetAttr(name) => {
                self.add(Instruction::LoadConst(Value::from(*name)));
                self.call(".=", Some(3))?;
                self.add(Instruction::DiscardTop);
                Ok(())
            }
            Instruction::LoadConst(value) if !value.is_kwargs() && !self.is_signature(at) => {
                self.add(Instruction::LoadConst(constant(self.state, value)?));
                Ok(())
            }
            // A variable that is set in such a block is gone after it.
            Instruction::BeginCapture(_) => {
                self.add(instruction.clone());
                self.add(Instruction::PushWith);
                Ok(())
            }
            Instruction::EndCapture => {
                self.add(Instruction::PopFrame);
                self.add(Instruction::EndCapture);
                Ok(())
            }
            Instruction::ApplyFilter(name, count, id) if usize::from(*id) >= CACHE - OPERATORS.len() => {
                self.add(Instruction::ApplyFilter(name, *count, NOT_CACHED));
                Ok(())
            }
            Instruction::BuildMacro(_, start, _) => {
                self.add(instruction.clone());
                match self.defaults(at, *start)? {
                    0 => Ok(()),
                    defaults => {
                        self.add(Instruction::LoadConst(Value::from(defaults)));
                        self.call(MACRO, Some(2))
                    }
                }
            }
            other => {
                self.add(other.clone());
                Ok(())
            }
        }
    }

    /// Whether the constant is the list of a macro's parameters.
    fn is_signature(&self, at: u32) -> bool {
        matches!(self.old.get(at + 1), Some(Instruction::BuildMacro(..)))
    }

    /// How many parameters of a macro have defaults. Its code begins at `start` with these, from the last one on.
    fn defaults(&self, at: u32, start: u32) -> Result<usize, Error> {
        let Some(Instruction::LoadConst(names)) = self.old.get(at - 1) else { return Ok(0) };
        let names: Vec<Value> = names.try_iter()?.collect();
        let is_parameter = |name: &str| names.iter().any(|known| known.as_str() == Some(name));
        let looks_up = |from: u32, to: u32, wanted: &dyn Fn(&str) -> bool| {
            all(self.old, from)
                .take((to - from) as usize)
                .any(|instruction| matches!(instruction, Instruction::Lookup(name) if wanted(name)))
        };
        if looks_up(start, at, &|name| matches!(name, "varargs" | "kwargs") && !is_parameter(name)) {
            return fail("a macro has no `varargs` and `kwargs`");
        }
        let (mut count, mut next) = (0, start);
        // A default begins with `DupTop`, `IsUndefined` and a jump to behind it.
        while let Some(Instruction::IsUndefined) = self.old.get(next + 1)
            && let Some(Instruction::JumpIfFalse(end)) = self.old.get(next + 2)
        {
            // The machine stores the parameters from the last one on.
            if looks_up(next, *end, &is_parameter) {
                return fail("the default of a macro's parameter cannot use another parameter");
            }
            (count, next) = (count + 1, end + 1);
        }
        Ok(count)
    }
}

/// The flag of a recursive loop.
const RECURSIVE: u8 = 2;

/// An argument that is missing, where the machine looks whether one is undefined: an undefined one is an argument too.
#[derive(Debug)]
struct Missing;

impl Object for Missing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// A macro of minijinja, the last of whose parameters have defaults.
#[derive(Debug)]
struct Macro {
    inner: Value,
    names: Vec<String>,
    defaults: usize,
}

impl Object for Macro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (placed, mut named) = split(args);
        let required = self.names.len() - self.defaults;
        for name in self.names.iter().skip(placed.len().max(required)) {
            if !named.iter().any(|(known, _)| known == name) {
                named.push((name.clone(), Value::from_object(Missing)));
            }
        }
        let named = Value::from(named.into_iter().collect::<Kwargs>());
        self.inner.call(state, &[placed, &[named]].concat())
    }
}

// More names that no template can write. The machine takes white space out of them.
const MISSING: &str = "missing!";
const MACRO: &str = "macro!";

/// Adds the operators to an environment, as filters.
pub(super) fn add_operators(env: &mut Environment<'_>) {
    for (name, operator) in OPERATORS {
        env.add_filter(name, move |state: &State<'_, '_>, args: &[Value]| operator(state, args));
    }
    env.add_filter(MISSING, |value: &Value| value.downcast_object_ref::<Missing>().is_some());
    env.add_filter(MACRO, |inner: &Value, defaults: usize| -> Result<Value, Error> {
        let names = inner.get_attr("arguments")?;
        let names: Vec<String> =
            names.try_iter()?.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        Ok(Value::from_object(Macro { inner: inner.clone(), names, defaults }))
    });
    env.add_filter(GENERATION, |state: &State<'_, '_>, text: &str| -> Result<String, Error> {
        room(state, text.len())?;
        Ok([MARKS[0].encode_utf8(&mut [0; 4]), text, MARKS[1].encode_utf8(&mut [0; 4])].concat())
    });
}
