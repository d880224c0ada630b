//! The base of all optimisers: groups, learning rates, state and atomic steps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use samebits_tensor_core::observe::{self, Phase};
use samebits_tensor_core::ops::CompareKind;
use samebits_tensor_core::{DType, Device, Error, Result, Tensor as Value};

use super::arithmetic::{cast_all, full_like, neg_all};
use super::{Optimizer, Rate, Snapshot};
use crate::functional::formula_of_values;
use crate::nn::module::expect_alike;
use crate::nn::{Kind, Module};
use crate::{Gradients, Tensor, run_all};

/// The update rule of an optimiser for one parameter.
pub trait Rule: Clone + fmt::Debug + Send + Sync + 'static {
    /// The optimiser's name, which starts its error messages.
    const NAME: &'static str;

    /// PyTorch's default learning rate.
    const LR: f64 = 1e-3;

    /// Returns the rule with the momentum set by a schedule, or `None` if the rule has no momentum.
    fn with_momentum(&self, momentum: f64) -> Option<Self> {
        let _ = momentum;
        None
    }

    /// Returns the names of the state tensors of each parameter. All have its shape and type; those
    /// of a parameter in half precision have type f32.
    fn kept(&self) -> Vec<&'static str>;

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the rule cannot compute with them.
    fn check(&self) -> Result<()>;

    /// Returns the parameter after its step number `step`, counted from 1. A parameter in half
    /// precision and its gradient are passed in f32. `kept` holds the state
    /// that the last step left, and is empty in the first step. The call leaves exactly the tensors
    /// that [`kept`](Rule::kept) names.
    ///
    /// # Errors
    ///
    /// Errors of the operations that it runs.
    fn step(
        &self,
        lr: f64,
        step: u64,
        parameter: &Value,
        gradient: &Value,
        kept: &mut Kept,
    ) -> Result<Value>;

    /// Returns all parameters of a group on one device after their steps, each with the bits of
    /// [`step`](Rule::step). The default computes one after the other.
    ///
    /// # Errors
    ///
    /// Errors of the operations that it runs.
    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let step = |turn: &mut Turn| {
            self.step(lr, turn.step, &turn.parameter, &turn.gradient, &mut turn.kept)
        };
        turns.iter_mut().map(step).collect()
    }
}

/// The state of one parameter, by name of the tensor.
pub type Kept = BTreeMap<&'static str, Value>;

/// The arguments of [`Rule::step`] for one of several parameters.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The number of the step, counted from 1.
    pub step: u64,
    /// The parameter.
    pub parameter: Value,
    /// Its gradient.
    pub gradient: Value,
    /// The state that the last step left, and then that of this one.
    pub kept: Kept,
}

/// An optimiser that updates every parameter by rule `R`.
#[derive(Clone, Debug)]
pub struct Descent<R> {
    /// The predicates of the second and later rules and rates. The first apply to all other
    /// parameters.
    matches: Vec<Predicate>,
    rules: Vec<R>,
    /// True for groups that maximise.
    maximize: Vec<bool>,
    rates: Vec<Rate>,
    steps: u64,
    /// All parameters that a step has met, including those that it did not change.
    parameters: BTreeMap<String, State>,
    /// The rules in force when the state was saved; set from loading until the next step.
    loaded: Option<Vec<R>>,
}

/// Settings of an optimiser that is not built yet.
#[derive(Clone, Debug)]
pub struct Options<R> {
    lr: f64,
    pub(super) rule: R,
    maximize: bool,
    groups: Vec<(Predicate, Options<R>)>,
}

/// The state of one parameter.
#[derive(Clone, Debug, Default)]
struct State {
    steps: u64,
    kept: Kept,
}

/// A predicate that decides by name and tensor if a parameter is in a group.
type Matches = dyn Fn(&str, &Tensor) -> bool + Send + Sync;

#[derive(Clone)]
struct Predicate(Arc<Matches>);

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl<R: Rule> Options<R> {
    /// Sets the learning rate.
    #[must_use]
    pub fn lr(mut self, lr: f64) -> Self {
        self.lr = lr;
        self
    }

    /// Sets whether to maximise: steps then follow the gradients instead of going against them
    /// (default false).
    #[must_use]
    pub fn maximize(mut self, maximize: bool) -> Self {
        self.maximize = maximize;
        self
    }

    /// Adds a group: parameters for which `matches` is true get the settings that `change` makes of
    /// those so far. A parameter belongs to the first group that it matches. In `matches`, use the
    /// tensor's shape or type; its values change from step to step.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::optim::AdamW;
    ///
    /// // Only matrices and convolutions decay.
    /// let optimizer = AdamW::options(1e-3)
    ///     .group(|_, parameter| parameter.rank() == 1, |options| options.weight_decay(0.0))
    ///     .init()?;
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "param_groups")]
    #[must_use]
    pub fn group(
        mut self,
        matches: impl Fn(&str, &Tensor) -> bool + Send + Sync + 'static,
        change: impl FnOnce(Options<R>) -> Options<R>,
    ) -> Self {
        let settings = change(Options { groups: Vec::new(), ..self.clone() });
        self.groups.push((Predicate(Arc::new(matches)), settings));
        self
    }

    /// Builds the optimiser, before its first step.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if a setting is out of range, or a group has groups.
    pub fn init(self) -> Result<Descent<R>> {
        let check = |options: &Options<R>| {
            check_lr(R::NAME, options.lr)?;
            options.rule.check()
        };
        check(&self)?;
        let mut rates = vec![Rate::new(self.lr)];
        let (mut rules, mut maximize) = (vec![self.rule], vec![self.maximize]);
        let mut matches = Vec::new();
        for (predicate, options) in self.groups {
            check(&options)?;
            if !options.groups.is_empty() {
                return Err(Error::invalid(R::NAME, "a group cannot have groups of its own"));
            }
            matches.push(predicate);
            rules.push(options.rule);
            maximize.push(options.maximize);
            rates.push(Rate::new(options.lr));
        }
        let parameters = BTreeMap::new();
        Ok(Descent { matches, rules, maximize, rates, steps: 0, parameters, loaded: None })
    }
}

impl<R: Rule + Default> Descent<R> {
    /// Creates an optimiser with learning rate `lr` and PyTorch's other defaults.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the rate is not a finite number of at least 0.
    pub fn new(lr: f64) -> Result<Descent<R>> {
        Descent::options(lr).init()
    }

    /// Returns settings with learning rate `lr` and PyTorch's other defaults.
    pub fn options(lr: f64) -> Options<R> {
        Options { lr, rule: R::default(), maximize: false, groups: Vec::new() }
    }
}

/// Returns PyTorch's defaults, including the rate.
impl<R: Rule + Default> Default for Options<R> {
    fn default() -> Options<R> {
        Descent::options(R::LR)
    }
}

/// Returns PyTorch's defaults, including the rate.
impl<R: Rule + Default> Default for Descent<R> {
    fn default() -> Descent<R> {
        let (rules, rates) = (vec![R::default()], vec![Rate::new(R::LR)]);
        let (matches, maximize, parameters) = (Vec::new(), vec![false], BTreeMap::new());
        Descent { matches, rules, maximize, rates, steps: 0, parameters, loaded: None }
    }
}

impl<R: Rule> Descent<R> {
    /// Returns the index of the rule and rate of a parameter.
    fn group(&self, name: &str, parameter: &Tensor) -> usize {
        let matches = |predicate: &Predicate| (predicate.0)(name, parameter);
        self.matches.iter().position(matches).map_or(0, |group| group + 1)
    }

    /// Rejects a parameter that the loaded state lacks, or whose loaded tensors belong to another
    /// group's rule.
    fn expect_loaded(&self, name: &str, group: usize) -> Result<()> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let op = R::NAME;
        let Some(state) = self.parameters.get(name) else {
            let message = format!(
                "the loaded state is of a model without the parameter {name}: there is no tensor \
                 {name}.{STEP}, which is 0 for a parameter that begins anew"
            );
            return Err(Error::InvalidState { op, message });
        };
        let found: BTreeSet<_> =
            state.kept.keys().copied().filter(|&what| what != MASTER).collect();
        // A rule whose momentum a schedule set to 0 keeps the tensors that it had.
        let mut expected = [&loaded[group], &self.rules[group]].map(kept_of).into_iter();
        if state.steps == 0 || expected.any(|expected| expected == found) {
            return Ok(());
        }
        let expected = kept_of(&loaded[group]);
        let message = format!("{name} needs the tensors {expected:?}, but {found:?} were loaded");
        Err(Error::InvalidState { op, message })
    }

    /// Returns the rule of each group, with the momentum set by a schedule.
    fn rules_now(&self) -> Result<Vec<R>> {
        let now = |(rule, rate): (&R, &Rate)| {
            let Some(momentum) = rate.momentum else { return Ok(rule.clone()) };
            let none = || {
                Error::invalid(R::NAME, "the schedule sets a momentum, but the optimiser has none")
            };
            let rule = rule.with_momentum(momentum).ok_or_else(none)?;
            rule.check()?;
            Ok(rule)
        };
        self.rules.iter().zip(&self.rates).map(now).collect()
    }

    /// Prepares the step of one parameter.
    fn turn(&self, name: &str, parameter: &Tensor, gradient: &Value) -> Result<Due> {
        let group = self.group(name, parameter);
        self.expect_loaded(name, group)?;
        let parameter = parameter.value();
        let State { steps, mut kept } = self.parameters.get(name).cloned().unwrap_or_default();
        // The state follows a model that was moved to another device.
        for tensor in kept.values_mut() {
            *tensor = tensor.to(parameter.device())?;
        }
        expect_like(R::NAME, parameter, parameter.dtype(), gradient)?;
        let half = Some(parameter.dtype()).filter(|dtype| dtype.is_half());
        let master = kept.remove(MASTER).filter(|_| half.is_some());
        let wide = half.map_or(parameter.dtype(), |_| DType::F32);
        for tensor in kept.values().chain(&master) {
            expect_like(R::NAME, parameter, wide, tensor)?;
        }
        let (parameter, gradient) = (parameter.clone(), gradient.clone());
        Ok(Due { group, half, master, turn: Turn { step: next(steps), parameter, gradient, kept } })
    }

    /// Computes the new values and states of parameters that are due together: of one group, and on one
    /// device.
    fn moved(&self, rules: &[R], mut due: Vec<Due>) -> Result<Vec<(Value, State)>> {
        let Some(group) = due.first().map(|due| due.group) else { return Ok(Vec::new()) };
        widen(&mut due)?;
        let (halves, mut turns): (Vec<_>, Vec<_>) =
            due.into_iter().map(|due| (due.half, due.turn)).unzip();
        if self.maximize[group] {
            let negative = neg_all(&turns.iter().map(|turn| &turn.gradient).collect::<Vec<_>>())?;
            for (turn, gradient) in turns.iter_mut().zip(negative) {
                turn.gradient = gradient;
            }
        }
        let moved = rules[group].step_all(self.rates[group].current, &mut turns)?;
        if moved.len() != turns.len() {
            let (expected, got) = (turns.len(), moved.len());
            let message = format!("the rule returned {got} of {expected} parameters");
            return Err(Error::invalid(R::NAME, message));
        }
        let wide = moved.iter().zip(&halves).filter_map(|(moved, half)| Some((moved, (*half)?)));
        let mut rounded = cast_all(&wide.collect::<Vec<_>>())?.into_iter();
        let finish = |((mut moved, half), turn): ((Value, Option<DType>), Turn)| {
            let Turn { step, mut kept, .. } = turn;
            if let Some(rounded) = half.and_then(|_| rounded.next()) {
                kept.insert(MASTER, std::mem::replace(&mut moved, rounded));
            }
            (moved, State { steps: step, kept })
        };
        Ok(moved.into_iter().zip(halves).zip(turns).map(finish).collect())
    }
}

/// Defines [`Rule::step`] by the rule's own [`Rule::step_all`].
macro_rules! step_of_all {
    () => {
        fn step(
            &self,
            lr: f64,
            step: u64,
            parameter: &samebits_tensor_core::Tensor,
            gradient: &samebits_tensor_core::Tensor,
            kept: &mut $crate::optim::Kept,
        ) -> $crate::Result<samebits_tensor_core::Tensor> {
            let (parameter, gradient) = (parameter.clone(), gradient.clone());
            let all = |turns: &mut [$crate::optim::Turn]| self.step_all(lr, turns);
            $crate::optim::descent::alone(step, parameter, gradient, kept, all)
        }
    };
}
pub(super) use step_of_all;

/// Returns the one parameter that `step_all` returns for it.
pub(super) fn alone(
    step: u64,
    parameter: Value,
    gradient: Value,
    kept: &mut Kept,
    step_all: impl FnOnce(&mut [Turn]) -> Result<Vec<Value>>,
) -> Result<Value> {
    let mut turns = [Turn { step, parameter, gradient, kept: std::mem::take(kept) }];
    let moved = step_all(&mut turns)?;
    let [turn] = turns;
    *kept = turn.kept;
    moved.into_iter().next().ok_or_else(|| Error::invalid("step", "no parameter was returned"))
}

/// A parameter of this step.
struct Due {
    group: usize,
    /// Its type, if that is a half.
    half: Option<DType>,
    /// Its master weight, if it has one.
    master: Option<Value>,
    turn: Turn,
}

/// A parameter of this step with its name and its old value.
type Named = (String, Tensor, Due);

impl<R: Rule> Optimizer for Descent<R> {
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()> {
        for rate in &self.rates {
            check_lr(R::NAME, rate.current)?;
        }
        expect_alike(R::NAME, model)?;
        let rules = self.rules_now()?;
        let (mut met, mut states, mut moved) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut due: BTreeMap<(usize, Device), Vec<Named>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut step = |due: Vec<Named>| {
            let (named, due): (Vec<_>, Vec<_>) =
                due.into_iter().map(|(name, parameter, due)| ((name, parameter), due)).unzip();
            let stepped = self.moved(&rules, due)?;
            for ((name, parameter), (value, state)) in named.into_iter().zip(stepped) {
                moved.insert(parameter.identity(), parameter.succeeded_by(value));
                states.push((name, state));
            }
            Ok::<_, Error>(())
        };
        observe::in_phase(Phase::Optimizer, || {
            for (name, parameter) in model.named_parameters() {
                if gradients.are_stale(&parameter) {
                    let message = format!(
                        "the gradient of {name} was taken before it was replaced, by a step or by \
                         loading: call `backward` for each step"
                    );
                    return Err(Error::invalid(R::NAME, message));
                }
                if let (Some(identity), Some(gradient)) =
                    (parameter.identity(), gradients.of(&parameter))
                    && seen.insert(identity)
                {
                    let turn = self.turn(&name, &parameter, gradient.value())?;
                    // On the CPU each half takes its step at once, so that little is kept in f32.
                    if parameter.device() == Device::Cpu && parameter.dtype().is_half() {
                        step(vec![(name, parameter, turn)])?;
                    } else {
                        let alike = due.entry((turn.group, parameter.device())).or_default();
                        alike.push((name, parameter, turn));
                    }
                } else {
                    met.push(name);
                }
            }
            due.into_values().try_for_each(step)
        })?;
        // Everything is computed; nothing below can fail.
        model.visit_mut("", &mut |_, kind, parameter| {
            if kind == Kind::Parameter
                && let Some(new) = moved.get(&parameter.identity())
            {
                *parameter = new.clone();
            }
        });
        self.parameters.extend(states);
        for name in met {
            self.parameters.entry(name).or_default();
        }
        self.loaded = None;
        self.steps = next(self.steps);
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn rates(&self) -> &[Rate] {
        &self.rates
    }

    fn rates_mut(&mut self) -> &mut [Rate] {
        &mut self.rates
    }

    fn state(&self) -> Result<Vec<(String, Tensor)>> {
        let rates = |rate: fn(&Rate) -> f64| {
            let rates: Vec<f64> = self.rates.iter().map(rate).collect();
            Tensor::from_slice(&rates, &[rates.len()])
        };
        let mut state = vec![
            (STEPS.to_owned(), count(self.steps)),
            (LR.to_owned(), rates(|rate| rate.current)?),
            (INITIAL_LR.to_owned(), rates(|rate| rate.initial)?),
        ];
        if self.rates.iter().any(|rate| rate.momentum.is_some()) {
            state.push((MOMENTUM.to_owned(), rates(|rate| rate.momentum.unwrap_or(f64::NAN))?));
        }
        for (name, parameter) in &self.parameters {
            state.push((format!("{name}.{STEP}"), count(parameter.steps)));
            for (what, tensor) in &parameter.kept {
                state.push((format!("{name}.{what}"), tensor.into()));
            }
        }
        Ok(state)
    }

    fn load_state(&mut self, state: Vec<(String, Tensor)>) -> Result<()> {
        let mut state = Saved::new(R::NAME, state);
        let steps = state.count(STEPS)?;
        let current = state.numbers(LR, self.rates.len())?;
        let initial = state.numbers(INITIAL_LR, self.rates.len())?;
        let momenta = if state.has(MOMENTUM) {
            state.numbers(MOMENTUM, self.rates.len())?
        } else {
            vec![f64::NAN; self.rates.len()]
        };
        let rates = current.into_iter().zip(initial).zip(momenta);
        let rates = rates.map(|((current, initial), momentum)| {
            let momentum = Some(momentum).filter(|momentum| !momentum.is_nan());
            Rate { initial, current, momentum }
        });
        let loaded = Descent { rates: rates.collect(), ..self.clone() };
        let rules = loaded.rules_now()?;
        // The group of a parameter is known only when a step meets it, so accept the tensors of any
        // rule here.
        let kinds: Vec<_> = rules.iter().chain(&self.rules).map(kept_of).collect();
        let all: BTreeSet<_> = kinds.iter().flatten().copied().collect();
        let mut parameters = BTreeMap::new();
        for name in state.parameters() {
            let steps = state.count(&format!("{name}.{STEP}"))?;
            let full = |what: &str| format!("{name}.{what}");
            let found = all.iter().copied().filter(|what| state.has(&full(what))).collect();
            let names = match steps {
                0 => BTreeSet::new(),
                _ if kinds.contains(&found) => found,
                _ => kinds[0].clone(),
            };
            let master = Some(MASTER).filter(|what| steps > 0 && state.has(&full(what)));
            let names = names.into_iter().chain(master);
            let kept = names.map(|what| Ok((what, state.take(&full(what))?.into())));
            let kept = kept.collect::<Result<_>>()?;
            parameters.insert(name, State { steps, kept });
        }
        state.expect_empty()?;
        let rules = (steps > 0).then_some(rules);
        *self = Descent { steps, parameters, loaded: rules, ..loaded };
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.clone()))
    }

    fn restore(&mut self, snapshot: Snapshot) -> Result<()> {
        *self = snapshot.content().ok_or_else(|| Snapshot::foreign(R::NAME))?;
        Ok(())
    }
}

/// Puts parameters and gradients in half precision into f32. An element of a parameter that is the rounded
/// master becomes that; another one was replaced after the last step, for example by loading, and begins
/// anew.
fn widen(due: &mut [Due]) -> Result<()> {
    let mut halves: Vec<&mut Due> = due.iter_mut().filter(|due| due.half.is_some()).collect();
    let wide = |of: fn(&Turn) -> &Value| {
        cast_all(&halves.iter().map(|due| (of(&due.turn), DType::F32)).collect::<Vec<_>>())
    };
    let (parameters, gradients) = (wide(|turn| &turn.parameter)?, wide(|turn| &turn.gradient)?);
    for (due, (parameter, gradient)) in halves.iter_mut().zip(parameters.into_iter().zip(gradients))
    {
        (due.turn.parameter, due.turn.gradient) = (parameter, gradient);
    }
    let known = halves.into_iter().filter_map(|due| Some((due.master.take()?, due.half?, due)));
    let known: Vec<(Value, DType, &mut Due)> = known.collect();
    let rounded = known.iter().map(|(master, half, _)| (master, *half));
    let rounded = cast_all(&rounded.collect::<Vec<_>>())?;
    let rounded = cast_all(&rounded.iter().map(|x| (x, DType::F32)).collect::<Vec<_>>())?;
    let formulas = known.iter().zip(&rounded).map(|((master, _, due), rounded)| {
        formula_of_values(&[master, rounded, &due.turn.parameter], |f, values| {
            let is_master = f.compare(CompareKind::Eq, values[1], values[2]);
            f.choose(is_master, values[0], values[2])
        })
    });
    let masters = run_all(&formulas.collect::<Vec<_>>())?;
    for ((_, _, due), master) in known.into_iter().zip(masters) {
        due.turn.parameter = master;
    }
    Ok(())
}

/// Returns the names of a rule's state tensors.
fn kept_of<R: Rule>(rule: &R) -> BTreeSet<&'static str> {
    rule.kept().into_iter().collect()
}

/// A saved state that is being read; tensors are removed as they are read.
pub(super) struct Saved {
    op: &'static str,
    tensors: BTreeMap<String, Tensor>,
}

impl Saved {
    pub(super) fn new(op: &'static str, tensors: Vec<(String, Tensor)>) -> Saved {
        Saved { op, tensors: tensors.into_iter().collect() }
    }

    /// Returns the names of the parameters that have a step count.
    fn parameters(&self) -> Vec<String> {
        let parameter = |name: &String| {
            let (parameter, what) = name.rsplit_once('.')?;
            (what == STEP).then(|| parameter.to_owned())
        };
        self.tensors.keys().filter_map(parameter).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    fn take(&mut self, name: &str) -> Result<Tensor> {
        self.tensors.remove(name).ok_or_else(|| self.invalid(format!("there is no tensor {name}")))
    }

    pub(super) fn count(&mut self, name: &str) -> Result<u64> {
        let count = self.take(name)?;
        let valid = if count.dtype() == DType::I64 && count.shape().is_empty() {
            u64::try_from(count.item::<i64>()?).ok()
        } else {
            None
        };
        valid.ok_or_else(|| self.invalid(format!("{name} is not a single step count")))
    }

    /// Takes `len` numbers of type f64.
    pub(super) fn numbers(&mut self, name: &str, len: usize) -> Result<Vec<f64>> {
        let numbers = self.take(name)?;
        if numbers.dtype() == DType::F64 && numbers.shape() == [len] {
            return numbers.to_vec();
        }
        Err(self.invalid(format!(
            "{name} should be f64 of shape [{len}], but is {} of shape {:?}",
            numbers.dtype(),
            numbers.shape()
        )))
    }

    pub(super) fn expect_empty(self) -> Result<()> {
        match self.tensors.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(self.invalid(format!("unexpected tensor {name}"))),
        }
    }

    fn invalid(&self, message: String) -> Error {
        Error::InvalidState { op: self.op, message }
    }
}

/// The largest step count that a tensor can hold.
pub(super) const MAX_COUNT: u64 = i64::MAX as u64;

/// Returns the count after `steps`. It saturates at [`MAX_COUNT`], so a resumed run takes the same
/// steps as an uninterrupted one.
pub(super) fn next(steps: u64) -> u64 {
    steps.saturating_add(1).min(MAX_COUNT)
}

/// Returns a count as a tensor.
pub(super) fn count(steps: u64) -> Tensor {
    Tensor::scalar(steps as i64)
}

pub(super) fn check_lr(op: &'static str, lr: f64) -> Result<()> {
    check_setting(op, "the learning rate", lr)
}

/// Rejects a value that is not a finite number of at least 0.
pub(super) fn check_setting(op: &'static str, what: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("{what} should be a finite number of at least 0, got {value}")))
}

/// Rejects a value outside `[0, 1)`.
pub(super) fn check_share(op: &'static str, what: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(op, format!("{what} should be at least 0 and less than 1, got {value}")))
}

/// Rejects a gradient or state of another type than `expected`, or of another shape than its parameter.
fn expect_like(op: &'static str, parameter: &Value, expected: DType, tensor: &Value) -> Result<()> {
    let what = "the gradient or state";
    if tensor.dtype() != expected {
        let got = tensor.dtype();
        return Err(Error::DTypeMismatch { op, what, expected, got });
    }
    if tensor.shape() != parameter.shape() {
        let (expected, got) = (parameter.shape().to_vec(), tensor.shape().to_vec());
        return Err(Error::ShapeMismatch { op, what, expected, got });
    }
    Ok(())
}

/// Names of tensors in the state. Names without a dot cannot belong to a parameter.
const STEPS: &str = "steps";
const LR: &str = "lr";
const INITIAL_LR: &str = "initial_lr";
const MOMENTUM: &str = "momentum";
const STEP: &str = "step";
const MASTER: &str = "master";

/// Returns the state `name` of a parameter; in its first step, zeros like the parameter.
pub(super) fn kept_or_zeros(kept: &Kept, name: &'static str, parameter: &Value) -> Result<Value> {
    match kept.get(name) {
        Some(tensor) => Ok(tensor.clone()),
        None => full_like(parameter, 0.0),
    }
}
