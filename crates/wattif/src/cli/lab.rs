//! `wattif lab`: the report's page, served to this machine alone.

use super::inputs::Inputs;
use super::report::{add_sides, inputs as form, of_run, sides};
use super::{Exit, output};
use crate::error::{Error, Look};
use crate::report::page;
use tiny_http::{Header, Request, Response, Server};

/// Serve the page with the simulator in it on the loopback interface: choose a platform, kernels, a workload, and run them in the
/// browser.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wattif lab
  wattif lab app.json -p pixel6 -k linux-6.1 -k linux-6.12 --duration 2s
  wattif lab --port 8080                   then open the address it prints; Ctrl-C ends it")]
pub struct Args {
    /// What the page shows first: an rt-app JSON file, a workload of the gallery, or a model.
    #[arg(value_name = "WORKLOAD", default_value = "phone")]
    workload: String,
    #[command(flatten)]
    inputs: Inputs,
    /// Kernel profile; with a second, both are shown.
    #[arg(short, long, value_name = "KERNEL", default_values = ["linux-6.12"])]
    kernel: Vec<String>,
    /// Port of 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

pub fn run(args: &Args, look: Look) -> Result<Exit, Error> {
    let loaded = args.inputs.load(&args.workload, &args.kernel, look)?;
    let runs = sides(&loaded.specs)?;
    let mut report = of_run(&runs[0], &loaded, form(&args.inputs, &args.kernel, &loaded, 5));
    report.kind = "lab";
    report.command = Some(super::report::command());
    add_sides(&mut report, &runs, &loaded)?;
    let html = page::html(report, runs);
    let server =
        Server::http(("127.0.0.1", args.port)).map_err(|e| Error::Usage(format!("--port {}: {e}", args.port)))?;
    let port = server.server_addr().to_ip().map_or(args.port, |a| a.port());
    output::data(&format!("http://127.0.0.1:{port}/\n"))?;
    for request in server.incoming_requests() {
        // A reader that went away is no reason to end.
        let _ = answer(request, &html, port);
    }
    Ok(Exit::Done)
}

/// The page at `/`, for who asks by an address of this machine: a page elsewhere cannot read it under another name.
fn answer(request: Request, html: &str, port: u16) -> std::io::Result<()> {
    let host = request.headers().iter().find(|h| h.field.equiv("Host")).map(|h| h.value.as_str().to_string());
    let own = ["127.0.0.1", "localhost"].iter().any(|name| host.as_deref() == Some(&format!("{name}:{port}")));
    let header = |name: &str, value: &str| Header::from_bytes(name, value).expect("plain text");
    match (own, request.url()) {
        (false, _) => request.respond(Response::from_string("this page is for 127.0.0.1\n").with_status_code(403)),
        (true, "/") => {
            let page = Response::from_string(html).with_header(header("Content-Type", "text/html; charset=utf-8"));
            request.respond(page.with_header(header("Cache-Control", "no-store")))
        }
        (true, _) => request.respond(Response::from_string("there is only /\n").with_status_code(404)),
    }
}
