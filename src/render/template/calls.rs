//! Adds what a template can call to an environment of minijinja: as it is, or through a [`Recorder`].

use std::sync::Arc;

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};

use super::noted::Call;
use super::recorder::{Called, Recorder};
use super::{methods, write};

/// An environment that gets its calls.
pub(super) struct Calls {
    env: Environment<'static>,
    recorder: Option<Recorder>,
}

impl Calls {
    /// With the methods of strings and dicts, and what writes values.
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        let mut env = Environment::empty();
        match recorder.clone() {
            None => {
                env.set_formatter(write);
                env.set_unknown_method_callback(|state, value, name, args| {
                    methods::call(state, value, name, args)
                });
            }
            Some(recorder) => {
                let writer = recorder.clone();
                env.set_formatter(move |out, state, value| {
                    let written = writer.written(state, value)?;
                    write(out, state, &written)
                });
                env.set_unknown_method_callback(move |state, value, name, args| {
                    let all = [std::slice::from_ref(value), args].concat();
                    let of = name.to_owned();
                    let call: Call =
                        Arc::new(move |state, all| methods::call(state, &all[0], &of, &all[1..]));
                    recorder.call(state, Called::Method, &call, &all)
                });
            }
        }
        Self { env, recorder }
    }

    pub(super) fn into_env(self) -> Environment<'static> {
        self.env
    }

    /// Adds an operator, which no template can write as a filter.
    pub(super) fn operator(
        &mut self,
        name: &'static str,
        call: fn(&State, &[Value]) -> Result<Value, Error>,
    ) {
        let call = self.through(Called::Operator(name), call);
        self.env.add_filter(name, move |state: &State<'_, '_>, args: &[Value]| call(state, args));
    }

    pub(super) fn filter(
        &mut self,
        name: &'static str,
        call: impl Fn(&State<'_, '_>, &[Value]) -> Result<Value, Error> + Send + Sync + 'static,
    ) {
        let call = with_all(self.through(Called::Filter(name), call));
        self.env.add_filter(name, call);
    }

    /// Adds a filter that applies others.
    pub(super) fn filter_of_filters(
        &mut self,
        name: &'static str,
        call: impl Fn(&mut State<'_, '_>, &[Value]) -> Result<Value, Error> + Send + Sync + 'static,
    ) {
        let recorder = self.recorder.clone();
        self.env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            if let Some(recorder) = &recorder {
                recorder.check(Called::Filter(name), &args)?;
            }
            call(state, &args)
        });
    }

    pub(super) fn test(
        &mut self,
        name: &'static str,
        call: impl Fn(&State<'_, '_>, &[Value]) -> Result<bool, Error> + Send + Sync + 'static,
    ) {
        let call =
            self.through(Called::Test(name), move |state, args: &[Value]| call(state, args).map(Value::from));
        self.env.add_test(name, move |state: &State<'_, '_>, args: Rest<ValueOrKwargs>| {
            call(state, &args.into_values()).map(|answer| answer.is_true())
        });
    }

    pub(super) fn function(
        &mut self,
        name: &'static str,
        call: impl Fn(&State<'_, '_>, &[Value]) -> Result<Value, Error> + Send + Sync + 'static,
    ) {
        let call = with_all(self.through(Called::Function(name), call));
        self.env.add_function(name, call);
    }

    /// The call, through the recorder if there is one.
    fn through(
        &self,
        called: Called,
        call: impl Fn(&State<'_, '_>, &[Value]) -> Result<Value, Error> + Send + Sync + 'static,
    ) -> Call {
        let call: Call = Arc::new(call);
        match self.recorder.clone() {
            None => call,
            Some(recorder) => Arc::new(move |state, args| recorder.call(state, called, &call, args)),
        }
    }
}

/// The call as minijinja makes it, with all arguments: by their places and by their names.
fn with_all(
    call: Call,
) -> impl Fn(&State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> + Send + Sync + 'static {
    move |state, args| call(state, &args.into_values())
}
