"""VeriReason: what is compiled at all, and how a design is split into statements."""

from __future__ import annotations

from hocket.agents.tools.verilog import refused
from hocket.methods.agents.claims.verireason import AND
from hocket.methods.agents.verireason import statements


def test_statements() -> None:
    text = """// a counter
    module top ( input clk , input [1:0] a, output reg y ) ; /* assign y = 0; */
      wire w ;
      assign w = a [0] & ~ a[1];
      always @ ( posedge clk ) if (w) y <= 1; else begin case (a) 2'd0: y <= 0; endcase end
      inner one (.p(w), .q(y));
    endmodule"""
    wanted = [
        *("module top", "port input clk", "port input[1:0]a", "port output reg y", "wire w", "assign w=a[0]&~a[1]"),
        *("always@(posedge clk)", "if(w)", "y<=1", "else", "case(a)", "y<=0", "inner one(.p(w),.q(y))"),
    ]
    found = statements(text)
    assert found == wanted


def test_system_tasks_and_directives_are_rejected() -> None:
    bad = ["$display", "$finish", "$readmemh", "$fopen", "$system", "`include", "`define", "$signed$display", "$"]
    good = ["$signed", "$unsigned", "$clog2"]
    kept = [refused(AND.replace("a&b", f"{one}(a)")) for one in good]
    assert all(refused(AND.replace("a&b", one)) for one in bad)
    assert not any(kept)
