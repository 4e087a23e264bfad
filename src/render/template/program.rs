//! A template as instructions of minijinja's machine, changed so that they do what Python does.
//!
//! minijinja parses the template and runs it. Its operators and loops differ from Python's in small things: `+` and `~`
//! print floats otherwise, `in` takes everything, a loop over `None` runs not at all instead of failing. So each such
//! instruction becomes a call of one of our [`operators`](super::operators), by the machine's own instruction for
//! filters, under names that no template can write. This rests on the unstable interface of one version of minijinja,
//! which `Cargo.toml` pins.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use minijinja::machinery::{self, CodeGenerator, Instruction, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Object, ObjectRepr};
use minijinja::{AutoEscape, Environment, Error, State, Value};

use super::arguments::split;
use super::objects::{Dict, Mark, Namespace, Seq, type_name};
use super::{MARKS, compare, fail, operators};

/// The variable whose scope is a generation block.
pub(super) const GENERATION: &str = "_generation_";

/// The stack of the thread that compiles, for the machine's parser and ours recur. Little of it is ever touched.
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
        let is_mark = |value: &Value| value.downcast_object_ref::<Mark>().is_some();
        let mark = |instruction: &Instruction<'_>| match instruction {
            Instruction::LoadConst(value) => is_mark(value),
            _ => false,
        };
        all(self.borrow_dependent()).any(mark)
    }

    /// Whether the template calls a function.
    pub(super) fn calls(&self, function: &str) -> bool {
        let call = |instruction: &Instruction<'_>| match instruction {
            Instruction::CallFunction(name, _) => *name == function,
            _ => false,
        };
        all(self.borrow_dependent()).any(call)
    }
}

fn all<'i, 'source>(
    instructions: &'i Instructions<'source>,
) -> impl Iterator<Item = &'i Instruction<'source>> {
    (0..).map_while(|at| instructions.get(at))
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
    let (instructions, _) = generator.finish();
    Rewriter::new(&instructions, env).rewrite()
}

/// What is open at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Scope,
    Generation,
    Capture,
    Loop,
}

/// A macro, by the places of its instructions.
struct MacroCode<'source> {
    /// Where its own instructions begin.
    start: u32,
    signature: Arc<Signature>,
    parameters: Vec<Parameter<'source>>,
    hidden: Vec<&'source str>,
    /// Where the parameters are stored, and what it does begins.
    body: u32,
}

struct Parameter<'source> {
    name: &'source str,
    /// The instructions of its default.
    default: Option<Range<u32>>,
}

struct Rewriter<'i, 'source> {
    old: &'i Instructions<'source>,
    env: &'i Environment<'static>,
    new: Instructions<'source>,
    /// For each old place the new one.
    places: Vec<Option<u32>>,
    /// What is open at each old place.
    open: Vec<Vec<Open>>,
    /// Macros that need more than minijinja's, by the place where they are built.
    macros: BTreeMap<u32, MacroCode<'source>>,
    /// The place in the machine's cache for each operator.
    cached: BTreeMap<&'static str, u8>,
    next_cached: u8,
    line: u16,
    /// How many instructions the new code has.
    length: u32,
    /// Its jumps whose targets are places of it already.
    landed: BTreeSet<u32>,
}

/// How many filters the machine caches.
const CACHE: u8 = 50;
/// The number of a filter that is not cached.
const NOT_CACHED: u8 = u8::MAX;

impl<'i, 'source> Rewriter<'i, 'source> {
    fn new(old: &'i Instructions<'source>, env: &'i Environment<'static>) -> Self {
        let next_cached = all(old).filter_map(|instruction| match instruction {
            Instruction::ApplyFilter(_, _, id) => Some(id.saturating_add(1)),
            _ => None,
        });
        let next_cached = next_cached.max().unwrap_or(0);
        let (open, macros) = (open_places(old), macros(old));
        let new = Instructions::new(old.name(), old.source());
        let (places, cached, landed) = (vec![None; open.len()], BTreeMap::new(), BTreeSet::new());
        Self { old, env, new, places, open, macros, cached, next_cached, line: 0, length: 0, landed }
    }

    fn add(&mut self, instruction: Instruction<'source>) {
        self.new.add_with_line(instruction, self.line);
        self.length += 1;
    }

    /// Adds a call of an operator, which takes `count` values off the stack. `None` if their number lies on top.
    fn call(&mut self, operator: &'static str, count: Option<u16>) {
        let next = &mut self.next_cached;
        let id = *self.cached.entry(operator).or_insert_with(|| {
            let id = *next;
            *next = next.saturating_add(1);
            if id < CACHE { id } else { NOT_CACHED }
        });
        self.add(Instruction::ApplyFilter(operator, count, id));
    }

    fn rewrite(mut self) -> Result<Instructions<'source>, Error> {
        let mut begins: BTreeMap<u32, u32> = self.macros.iter().map(|(at, code)| (code.start, *at)).collect();
        let mut at = 0;
        while self.old.get(at).is_some() {
            match begins.remove(&at).and_then(|built| self.macros.remove_entry(&built)) {
                Some((built, code)) => {
                    self.store_parameters(&code)?;
                    at = code.body;
                    self.macros.insert(built, code);
                }
                None => {
                    self.rewrite_at(at)?;
                    at += 1;
                }
            }
        }
        self.place(at);
        self.relocate();
        Ok(self.new)
    }

    /// Stores the parameters of a macro, and then what stands for those that are missing, from the first on: a default
    /// can use the parameters before it.
    fn store_parameters(&mut self, code: &MacroCode<'source>) -> Result<(), Error> {
        self.place(code.start);
        // The last parameter lies on top.
        for name in code.hidden.iter().rev() {
            self.add(Instruction::StoreLocal(name));
        }
        for Parameter { name, default } in code.parameters.iter().rev() {
            if default.is_none() {
                self.call(GIVEN, Some(1));
            }
            self.add(Instruction::StoreLocal(name));
        }
        for Parameter { name, default } in &code.parameters {
            let Some(default) = default else { continue };
            self.add(Instruction::Lookup(name));
            self.add(Instruction::IsUndefined);
            let is_given = self.jump(Instruction::JumpIfFalse(0));
            for at in default.clone() {
                self.rewrite_at(at)?;
            }
            // A jump in it may go to its end.
            self.place(default.end);
            let is_missing = self.jump(Instruction::Jump(0));
            self.land(is_given);
            self.add(Instruction::Lookup(name));
            self.call(GIVEN, Some(1));
            self.land(is_missing);
            self.add(Instruction::StoreLocal(name));
        }
        Ok(())
    }

    /// Adds a jump whose target is not known yet.
    fn jump(&mut self, jump: Instruction<'source>) -> u32 {
        self.add(jump);
        self.landed.insert(self.length - 1);
        self.length - 1
    }

    /// Lets a jump go to what is added next.
    fn land(&mut self, jump: u32) {
        let here = self.length;
        if let Some(Instruction::Jump(target) | Instruction::JumpIfFalse(target)) = self.new.get_mut(jump) {
            *target = here;
        }
    }

    /// What was at an old place begins here, unless something of it was added before.
    fn place(&mut self, at: u32) {
        self.places[at as usize].get_or_insert(self.length);
    }

    fn rewrite_at(&mut self, at: u32) -> Result<(), Error> {
        let Some(instruction) = self.old.get(at) else { return Ok(()) };
        self.line = self.old.get_line(at).and_then(|line| u16::try_from(line).ok()).unwrap_or(0);
        self.place(at);
        self.rewrite_one(at, instruction)
    }

    fn rewrite_one(&mut self, at: u32, instruction: &Instruction<'source>) -> Result<(), Error> {
        match instruction {
            Instruction::Add => self.call("+", Some(2)),
            Instruction::Mul => self.call("*", Some(2)),
            Instruction::Rem => self.call("%", Some(2)),
            Instruction::StringConcat => self.call("~", Some(2)),
            Instruction::Lt => self.call("<", Some(2)),
            Instruction::Lte => self.call("<=", Some(2)),
            Instruction::Gt => self.call(">", Some(2)),
            Instruction::Gte => self.call(">=", Some(2)),
            Instruction::In => self.call("in!", Some(2)),
            Instruction::GetItem => self.call("[]", Some(2)),
            Instruction::Slice => self.call("[:]", Some(4)),
            Instruction::BuildList(count) => {
                self.call("list!", count.and_then(|count| u16::try_from(count).ok()))
            }
            Instruction::BuildTuple(count) => {
                self.call("tuple!", count.and_then(|count| u16::try_from(count).ok()))
            }
            Instruction::BuildMap(pairs) => match u16::try_from(pairs * 2) {
                Ok(count) => self.call("dict!", Some(count)),
                Err(_) => return fail("a dict of the template is too large"),
            },
            Instruction::PushLoop(_) => {
                self.call("for!", Some(1));
                self.add(instruction.clone());
            }
            Instruction::SetAttr(name) => {
                self.add(Instruction::LoadConst(Value::from(*name)));
                self.call(".=", Some(3));
                self.add(Instruction::DiscardTop);
            }
            Instruction::LoadConst(_) if self.begins_generation(at) => self.mark(MARKS[0]),
            Instruction::LoadConst(parameters) if let Some(code) = self.macros.get(&(at + 1)) => {
                let hidden = code.hidden.iter().map(|name| Value::from(*name));
                let all = parameters.try_iter()?.chain(hidden).collect::<Vec<_>>();
                self.add(Instruction::LoadConst(Value::from(all)));
            }
            Instruction::LoadConst(value) if !value.is_kwargs() => {
                let value = operators::constant(&self.env.empty_state(), value)?;
                self.add(Instruction::LoadConst(value));
            }
            Instruction::StoreLocal(name) if *name == GENERATION => self.add(Instruction::Emit),
            Instruction::PopFrame if self.open[at as usize].last() == Some(&Open::Generation) => {
                self.mark(MARKS[1]);
                self.add(Instruction::Emit);
                self.add(Instruction::PopFrame);
            }
            // A variable that is set in such a block is gone after it.
            Instruction::BeginCapture(_) => {
                self.add(instruction.clone());
                self.add(Instruction::PushWith);
            }
            Instruction::EndCapture => {
                self.add(Instruction::PopFrame);
                self.add(Instruction::EndCapture);
            }
            Instruction::Jump(target) => {
                self.leave(at, *target)?;
                self.add(instruction.clone());
            }
            Instruction::BuildMacro(..) => {
                self.add(instruction.clone());
                if let Some(code) = self.macros.get(&at) {
                    let signature = Value::from_dyn_object(Arc::clone(&code.signature));
                    self.add(Instruction::LoadConst(signature));
                    self.call(MACRO, Some(2));
                }
            }
            other => self.add(other.clone()),
        }
        Ok(())
    }

    /// Whether the constant is the value of [`GENERATION`].
    fn begins_generation(&self, at: u32) -> bool {
        matches!(self.old.get(at + 1), Some(Instruction::StoreLocal(name)) if *name == GENERATION)
    }

    fn mark(&mut self, mark: char) {
        self.add(Instruction::LoadConst(Value::from_object(Mark(mark))));
    }

    /// Closes what `break` and `continue` jump out of, which minijinja leaves open.
    fn leave(&mut self, at: u32, target: u32) -> Result<(), Error> {
        let Some(outer) = self.open.get(target as usize) else { return Ok(()) };
        let left: Vec<Open> = self.open[at as usize].iter().skip(outer.len()).rev().copied().collect();
        for open in left {
            match open {
                Open::Scope => self.add(Instruction::PopFrame),
                Open::Capture => {
                    self.add(Instruction::PopFrame);
                    self.add(Instruction::EndCapture);
                    self.add(Instruction::DiscardTop);
                }
                Open::Generation => return fail("`break` or `continue` leaves a generation block"),
                Open::Loop => return fail("`break` or `continue` leaves two loops"),
            }
        }
        Ok(())
    }

    /// Lets jumps go where their targets are now.
    fn relocate(&mut self) {
        let mut at = 0;
        while let Some(instruction) = self.new.get_mut(at) {
            match instruction {
                _ if self.landed.contains(&at) => {}
                Instruction::Jump(target)
                | Instruction::JumpIfFalse(target)
                | Instruction::JumpIfFalseOrPop(target)
                | Instruction::JumpIfTrueOrPop(target)
                | Instruction::Iterate(target)
                | Instruction::BuildMacro(_, target, _) => {
                    *target = self.places.get(*target as usize).copied().flatten().unwrap_or(*target);
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// What is open at each place, before its instruction.
fn open_places(code: &Instructions<'_>) -> Vec<Vec<Open>> {
    let mut open = Vec::new();
    let mut places = Vec::new();
    for (at, instruction) in all(code).enumerate() {
        places.push(open.clone());
        match instruction {
            Instruction::PushWith => open.push(match code.get(at as u32 + 2) {
                Some(Instruction::StoreLocal(name)) if *name == GENERATION => Open::Generation,
                _ => Open::Scope,
            }),
            Instruction::PushLoop(_) => open.push(Open::Loop),
            Instruction::BeginCapture(_) => open.push(Open::Capture),
            Instruction::PopFrame | Instruction::PopLoopFrame | Instruction::EndCapture => {
                open.pop();
            }
            _ => {}
        }
    }
    places.push(open);
    places
}

/// The macros of which minijinja's do too little: it takes an undefined argument for a missing one, computes defaults
/// from the last to the first, and knows no `varargs` and `kwargs`.
fn macros<'source>(code: &Instructions<'source>) -> BTreeMap<u32, MacroCode<'source>> {
    let mut macros = BTreeMap::new();
    for (at, instruction) in all(code).enumerate() {
        let at = at as u32;
        let Instruction::BuildMacro(_, start, _) = *instruction else { continue };
        let Some(Instruction::LoadConst(parameters)) = code.get(at.wrapping_sub(1)) else { continue };
        let names: Vec<String> = parameters
            .try_iter()
            .into_iter()
            .flatten()
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect();
        let body = || (start..at).filter_map(|at| code.get(at));
        let uses = |wanted: &str| {
            body().any(|instruction| matches!(instruction, Instruction::Lookup(name) if *name == wanted))
        };
        let hidden: Vec<&str> = ["varargs", "kwargs"].into_iter().filter(|name| uses(name)).collect();
        // Parameters are stored from the last to the first, and what their defaults compute stores nothing.
        let mut body = start;
        let mut parameters = Vec::new();
        for name in names.iter().rev() {
            let has_default = matches!(code.get(body), Some(Instruction::DupTop));
            let begin = body;
            let stored = loop {
                match code.get(body) {
                    Some(Instruction::StoreLocal(stored)) if *stored == name.as_str() => break Some(*stored),
                    Some(_) if body < at => body += 1,
                    _ => break None,
                }
            };
            let Some(name) = stored else { break };
            // `DupTop`, `IsUndefined`, `JumpIfFalse` and `DiscardTop` stand before it.
            parameters.push(Parameter { name, default: has_default.then_some(begin + 4..body) });
            body += 1;
        }
        parameters.reverse();
        let has_defaults = parameters.iter().any(|parameter| parameter.default.is_some());
        if parameters.len() < names.len() || !has_defaults && hidden.is_empty() {
            continue;
        }
        let has = |name: &str| hidden.contains(&name);
        let signature = Arc::new(Signature { names, varargs: has("varargs"), kwargs: has("kwargs") });
        macros.insert(at, MacroCode { start, signature, parameters, hidden, body });
    }
    macros
}

/// The parameters of a macro.
#[derive(Debug)]
struct Signature {
    names: Vec<String>,
    varargs: bool,
    kwargs: bool,
}

impl Object for Signature {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// An argument that is given and undefined.
#[derive(Debug)]
struct GivenUndefined;

impl Object for GivenUndefined {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// A macro of minijinja whose arguments are made ready as Jinja does.
#[derive(Debug)]
pub(super) struct Macro {
    inner: Value,
    signature: Arc<Signature>,
}

impl Object for Macro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.inner.get_item(key).ok()
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let Signature { names, varargs, kwargs } = &*self.signature;
        let (placed, named) = split(args);
        let given = |value: &Value| match value.is_undefined() {
            true => Value::from_object(GivenUndefined),
            false => value.clone(),
        };
        let (known, more) = placed.split_at(placed.len().min(names.len()));
        let mut args: Vec<Value> = known.iter().map(given).collect();
        if !more.is_empty() && !varargs {
            return fail(format!("a macro takes not more than {} arguments", names.len()));
        }
        let is_known = |name: &str| name == "caller" || names.iter().any(|known| known == name);
        let (mut ours, rest): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|(name, _)| !kwargs || is_known(name));
        for (_, value) in &mut ours {
            *value = given(value);
        }
        if *varargs {
            ours.push(("varargs".to_owned(), Seq::tuple(state, more.to_vec())?));
        }
        if *kwargs {
            let rest = rest.into_iter().map(|(name, value)| (Value::from(name), value));
            ours.push(("kwargs".to_owned(), Dict::make(state, rest.collect())?));
        }
        if !ours.is_empty() {
            args.push(Value::from(ours.into_iter().collect::<Kwargs>()));
        }
        self.inner.call(state, &args)
    }
}

// The names of operators, which are none that a template can write. The machine takes white space out of them.
const GIVEN: &str = "given!";
const MACRO: &str = "macro!";

/// Adds the operators to an environment, as filters.
pub(super) fn add_operators(env: &mut Environment<'_>) {
    use std::cmp::Ordering;

    type Holds = fn(Ordering) -> bool;
    type Variadic = fn(&State, &[Value]) -> Result<Value, Error>;
    env.add_filter("+", |state: &State<'_, '_>, a: &Value, b: &Value| operators::add(state, a, b));
    env.add_filter("*", |state: &State<'_, '_>, a: &Value, b: &Value| operators::multiply(state, a, b));
    env.add_filter("%", |state: &State<'_, '_>, a: &Value, b: &Value| operators::remainder(state, a, b));
    env.add_filter("~", |state: &State<'_, '_>, a: &Value, b: &Value| operators::concatenate(state, a, b));
    env.add_filter("[]", |state: &State<'_, '_>, object: &Value, key: &Value| {
        operators::item(state, object, key)
    });
    env.add_filter("for!", |state: &State<'_, '_>, value: &Value| operators::iterable(state, value));
    env.add_filter("in!", |state: &State<'_, '_>, item: &Value, container: &Value| {
        compare::contains(state, container, item).map(Value::from)
    });
    let slice = |state: &State<'_, '_>, object: &Value, start: &Value, stop: &Value, step: &Value| {
        operators::slice(state, object, start, stop, step)
    };
    env.add_filter("[:]", slice);
    let orders: [(&str, Holds); 4] =
        [("<", Ordering::is_lt), ("<=", Ordering::is_le), (">", Ordering::is_gt), (">=", Ordering::is_ge)];
    for (name, holds) in orders {
        env.add_filter(name, move |a: &Value, b: &Value| {
            operators::ordered(name, holds, a, b).map(Value::from)
        });
    }
    let variadic: [(&str, Variadic); 3] =
        [("list!", operators::list), ("tuple!", operators::tuple), ("dict!", operators::mapping)];
    for (name, make) in variadic {
        env.add_filter(name, move |state: &State<'_, '_>, parts: &[Value]| make(state, parts));
    }
    env.add_filter(".=", |state: &State<'_, '_>, value: &Value, object: &Value, name: &str| match object
        .downcast_object_ref::<Namespace>(
    ) {
        Some(namespace) => namespace.set(state, name, value.clone()),
        None => {
            fail(format!("cannot assign attribute on non-namespace object of type {}", type_name(object)))
        }
    });
    env.add_filter(GIVEN, |value: &Value| match value.downcast_object_ref::<GivenUndefined>() {
        Some(_) => Value::UNDEFINED,
        None => value.clone(),
    });
    env.add_filter(MACRO, |inner: &Value, signature: &Value| match signature.downcast_object() {
        Some(signature) => Ok(Value::from_object(Macro { inner: inner.clone(), signature })),
        None => fail("a macro has no signature"),
    });
}
