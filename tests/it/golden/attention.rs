//! Attention with a bias for every pair and head, with and without projections; by the kernel and
//! composed.

use burn::tensor::Tensor;

use super::Fixture;
use super::models::check_gradients;
use hdse::data::Edges;
use hdse::nn::{
    Builder, Inputs, Mode, MultiHead, Pairs, Parameters, Pass, Structure, attention, cpu, matrix,
    values,
};
use hdse::rng::Seed;

pub fn check(fixture: &Fixture) {
    let packed = fixture.has("param.in_proj_weight");
    for composed in [false, true] {
        match packed {
            true => projected(fixture, composed),
            false => plain(fixture, composed),
        }
    }
}

fn tracked(fixture: &Fixture, name: &str) -> Tensor<2> {
    let shape: [usize; 2] = fixture.shape(name).try_into().expect("two axes");
    matrix(fixture.floats(name), shape, &cpu().autodiff()).require_grad()
}

fn sizes(fixture: &Fixture) -> Vec<usize> {
    fixture.ints("in.ptr").windows(2).map(|ends| (ends[1] - ends[0]) as usize).collect()
}

fn plain(fixture: &Fixture, composed: bool) {
    let parameters = Parameters::default();
    let pass = Pass::new(&parameters, Mode::Eval, &cpu().autodiff());
    let pass = if composed { pass.composed() } else { pass };
    let nodes = fixture.ints("in.ptr").iter().map(|&offset| offset as usize).collect();
    let leaves @ [query, key, value, bias] =
        &["q", "k", "v", "bias"].map(|name| tracked(fixture, &format!("in.{name}")));
    // Every pair is a code of its own.
    let pairs = Pairs::new(nodes, Some((0..bias.dims()[0] as u32).collect()));
    let inputs = Inputs { query: query.clone(), key: key.clone(), value: value.clone() };
    let heads = fixture.size("heads");
    let y = attention(&pass, &pairs, heads, inputs, Some(bias.clone()), None, String::new);
    fixture.output("out.y", &values(y.clone()));
    let upstream = matrix(fixture.floats("in.gy"), y.dims(), pass.device());
    let gradients = (y * upstream).sum().backward();
    for (name, leaf) in ["q", "k", "v", "bias"].into_iter().zip(leaves) {
        fixture.gradient(name, &values(leaf.grad(&gradients).expect("a gradient")));
    }
}

fn projected(fixture: &Fixture, composed: bool) {
    let (heads, dim) = (fixture.size("heads"), fixture.size("dim"));
    let mut builder = Builder::new(Seed(0));
    // The fixture's names have no scope of their own.
    let layer = MultiHead::new(builder.root(), dim, heads, 0.0);
    let mut parameters = builder.finish();
    parameters.load(&fixture.path, "param.").unwrap();
    let pass = Pass::new(&parameters, Mode::Eval, &cpu().autodiff());
    let pass = if composed { pass.composed() } else { pass };
    let (x, bias) = (tracked(fixture, "in.h"), tracked(fixture, "in.bias"));
    // Every pair is a code of its own.
    let codes = (0..bias.dims()[0] as u32).collect();
    let structure = Structure::new(&sizes(fixture), &Edges::default(), Some(codes));
    let y = layer.forward(&pass, &structure, x.clone(), Some(bias.clone()), String::new);
    fixture.output("out.y", &values(y.clone()));
    let loss = (y.clone() * matrix(fixture.floats("in.gy"), y.dims(), pass.device())).sum();
    let (flat, inputs) = pass.gradients_with(&loss, &[&x, &bias]);
    check_gradients(fixture, &parameters, &flat, "");
    fixture.gradient("in.h", &inputs[0]);
    fixture.gradient("in.bias", &inputs[1]);
}
