use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::commands::ip2method::report::{Ip2MethodReport, IpRow, VersionRow};
use crate::report::InlinedRow;
use crate::runtimes::api::CodeVersion;
use crate::session::Session;

/// Finds the method or function of each address.
pub fn ip2method(session: &Session<'_>, ips: &[Addr]) -> Ip2MethodReport {
    let names = Names::new(session);
    let results = ips.iter().map(|&ip| row(&names, ip)).collect();
    names.note_missing();
    Ip2MethodReport { results }
}

pub(in crate::commands) fn row(names: &Names<'_, '_>, ip: Addr) -> IpRow {
    let (runtime, method) = match names.code(ip) {
        Code::Managed(runtime, method) => (runtime, method),
        other => {
            return IpRow { ip, reason: Some(names.explain(ip, &other)), ..IpRow::default() };
        }
    };
    let detail = names.runtime(runtime).map(|code| code.detail(&method)).unwrap_or_default();
    let tier = detail.versions.iter().find(|v| v.code == method.start).map(|v| v.tier);
    let in_cold = method.cold.is_some_and(|(start, size)| ip >= start && ip.since(start) < size);
    let place = names.source(runtime, &method, ip);
    let inlined = names.runtime(runtime).map(|code| code.inlined(&method, ip)).unwrap_or_default();
    let version = |v: CodeVersion| VersionRow {
        code: (!v.code.is_null()).then_some(v.code),
        tier: v.tier,
        node: (!v.node.is_null()).then_some(v.node),
        il_version: v.il_version,
        il_address: if v.il_version == 0 { detail.il_address } else { None },
    };
    IpRow {
        ip,
        found: true,
        method: Some(method.name.clone()),
        offset: (!in_cold).then(|| ip.since(method.start)),
        method_desc: method.id,
        class: detail.class,
        method_table: detail.method_table,
        token: method.token.clone(),
        module: Some(method.module.clone()),
        module_path: detail.module_path,
        module_address: detail.module_address,
        code_start: Some(method.start),
        code_size: Some(method.size),
        cold_start: method.cold.map(|c| c.0),
        cold_size: method.cold.map(|c| c.1),
        tier,
        jitted: detail.jitted,
        il_offset: place.il_offset,
        file: place.file,
        line: place.line,
        inlined: inlined.into_iter().map(InlinedRow::from).collect(),
        versions: detail.versions.into_iter().map(version).collect(),
        reason: None,
        note: detail.note,
    }
}
