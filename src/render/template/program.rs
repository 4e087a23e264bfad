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

use super::arguments::{split, text};
use super::calls::Calls;
use super::objects::{Dict, Kind, Seq};
use super::operators::{GENERATION, MACRO, MISSING, OPERATORS, constant};
use super::{MARKS, fail, room, shape};

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

    /// Renders variables of so many bytes.
    pub(super) fn run(&self, env: &Environment<'_>, variables: Value, bytes: usize) -> Result<String, Error> {
        self.with_dependent(|source, instructions| {
            // Most templates write each variable once, and something around it.
            let mut text = String::with_capacity(source.len() + bytes + bytes / 4);
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

    /// Whether no skeleton can be made: `*` before an argument makes the machine read a text, or the source may spell a
    /// placeholder.
    pub(super) fn disturbs_skeletons(&self) -> bool {
        let source = self.borrow_owner();
        all(self.borrow_dependent(), 0).any(|instruction| matches!(instruction, Instruction::UnpackLists(_)))
            || shape::plain(source).is_none()
            // Half of a character beyond the first plane.
            || source.to_ascii_lowercase().contains("\\ud")
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
    let hidden = hidden(&old);
    Rewriter { old: &old, state: &env.empty_state(), new, hidden, length: 0, line: 0 }.rewrite()
}

/// For each macro that uses them: where its code begins, and which of [`HIDDEN`] it looks up.
fn hidden(code: &Instructions<'_>) -> BTreeMap<u32, Vec<&'static str>> {
    let of = |(at, instruction): (usize, &Instruction<'_>)| {
        let Instruction::BuildMacro(_, start, _) = *instruction else { return None };
        let names = names_before(code, at as u32);
        let body = || all(code, start).take(at - start as usize);
        let is_used = |name: &&str| {
            !names.iter().any(|known| known == name)
                && body().any(|instruction| matches!(instruction, Instruction::Lookup(used) if used == name))
        };
        Some((start, HIDDEN.into_iter().filter(is_used).collect::<Vec<_>>()))
    };
    all(code, 0).enumerate().filter_map(of).filter(|(_, hidden)| !hidden.is_empty()).collect()
}

/// The parameters of the macro that is built at a place: the constant before it.
fn names_before(code: &Instructions<'_>, at: u32) -> Vec<String> {
    let Some(Instruction::LoadConst(names)) = at.checked_sub(1).and_then(|before| code.get(before)) else {
        return Vec::new();
    };
    let names = names.try_iter().into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// How many filters the machine caches, and the number of one that is not cached.
const CACHE: usize = 50;
const NOT_CACHED: u8 = u8::MAX;

struct Rewriter<'i, 'source> {
    old: &'i Instructions<'source>,
    state: &'i State<'i, 'i>,
    new: Instructions<'source>,
    /// Where the codes of macros begin, with the names beside their parameters that they look up.
    hidden: BTreeMap<u32, Vec<&'static str>>,
    /// How many instructions the new code has.
    length: u32,
    line: u16,
}

/// What a macro finds its further arguments by.
const HIDDEN: [&str; 2] = ["varargs", "kwargs"];

impl<'source> Rewriter<'_, 'source> {
    fn rewrite(mut self) -> Result<Instructions<'source>, Error> {
        let mut places = Vec::new();
        for (at, instruction) in all(self.old, 0).enumerate() {
            places.push(self.length);
            self.line = self.old.get_line(at as u32).and_then(|line| line.try_into().ok()).unwrap_or(0);
            // The machine stores the parameters from the last one on, and these are behind the others.
            for name in self.hidden.get(&(at as u32)).cloned().unwrap_or_default().into_iter().rev() {
                self.add(Instruction::StoreLocal(name));
            }
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
            Instruction::Rem => self.call("%", Some(2)),
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
            // The list of a macro's parameters, with those that have no place in it.
            Instruction::LoadConst(_)
                if let Some(Instruction::BuildMacro(_, start, _)) = self.old.get(at + 1) =>
            {
                let hidden = self.hidden.get(start).into_iter().flatten().map(|name| (*name).to_owned());
                let names = names_before(self.old, at + 1).into_iter().chain(hidden).collect::<Vec<_>>();
                self.add(Instruction::LoadConst(Value::from(names)));
                Ok(())
            }
            Instruction::LoadConst(value) if !value.is_kwargs() => {
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
                let defaults = self.defaults(at, *start)?;
                let hidden = self.hidden.get(start).map_or(0, Vec::len);
                if defaults + hidden == 0 {
                    return Ok(());
                }
                self.add(Instruction::LoadConst(Value::from(defaults)));
                self.add(Instruction::LoadConst(Value::from(hidden)));
                self.call(MACRO, Some(3))
            }
            other => {
                self.add(other.clone());
                Ok(())
            }
        }
    }

    /// How many parameters of a macro have defaults. Its code begins at `start` with these, from the last one on.
    fn defaults(&self, at: u32, start: u32) -> Result<usize, Error> {
        let names = names_before(self.old, at);
        let looks_up = |from: u32, to: u32| {
            all(self.old, from).take((to - from) as usize).any(|instruction| {
                matches!(instruction, Instruction::Lookup(name) if names.iter().any(|known| known == name))
            })
        };
        let (mut count, mut next) = (0, start);
        // A default begins with `DupTop`, `IsUndefined` and a jump to behind it.
        while let Some(Instruction::IsUndefined) = self.old.get(next + 1)
            && let Some(Instruction::JumpIfFalse(end)) = self.old.get(next + 2)
        {
            // The machine stores the parameters from the last one on.
            if looks_up(next, *end) {
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

/// A macro of minijinja, the last of whose parameters have defaults, and which may take further arguments.
#[derive(Debug)]
struct Macro {
    inner: Value,
    names: Vec<String>,
    hidden: Vec<String>,
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
        let (mut placed, mut more) = (placed.to_vec(), Vec::new());
        if self.hidden.iter().any(|name| name == "varargs") && placed.len() > self.names.len() {
            more = placed.split_off(self.names.len());
        }
        for name in &self.hidden {
            let value = if name == "varargs" {
                Seq::make(state, Kind::Tuple, std::mem::take(&mut more))?
            } else {
                let is_known = |name: &String| {
                    name == "caller" || self.names.contains(name) || self.hidden.contains(name)
                };
                let further = named.extract_if(.., |(name, _)| !is_known(name));
                Dict::make(state, further.map(|(name, value)| (Value::from(name), value)).collect())?
            };
            named.push((name.clone(), value));
        }
        placed.push(Value::from(named.into_iter().collect::<Kwargs>()));
        self.inner.call(state, &placed)
    }
}

pub(super) fn add_operators(calls: &mut Calls) {
    for (name, operator) in OPERATORS {
        calls.operator(name, operator);
    }
    calls.operator(MISSING, |_, args| Ok(Value::from(args[0].downcast_object_ref::<Missing>().is_some())));
    calls.operator(MACRO, |_, args| {
        let [inner, defaults, hidden] = args else { return fail("a macro has three parts") };
        let [defaults, hidden] = [defaults, hidden].map(|count| count.as_usize().unwrap_or(0));
        let names = inner.get_attr("arguments")?;
        let mut names: Vec<String> =
            names.try_iter()?.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        let hidden = names.split_off(names.len() - hidden);
        Ok(Value::from_object(Macro { inner: inner.clone(), names, hidden, defaults }))
    });
    calls.operator(GENERATION, |state, args| {
        let text = text(&args[0])?;
        room(state, text.len())?;
        let marked = [MARKS[0].encode_utf8(&mut [0; 4]), text, MARKS[1].encode_utf8(&mut [0; 4])].concat();
        Ok(Value::from(marked))
    });
}
