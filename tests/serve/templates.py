"""Writes templates.json: chat templates of published models and single expressions, with the output of Jinja."""

import json

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

T={}
T['chatml']="{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
T['llama3']="{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
T['mistral']="{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
T['gemma']="{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
T['qwen']="""{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {{- '<tool_call>' ~ tool_call.name }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
T['zephyr']="""{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
  {# a comment #}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""
T['mixed']="""{{ messages[1:] | length }} {{ messages[-1]['content'][1:3] }}{{ 'b' if messages|length > 2 else 'a' }} {{ -1 + 3 }} {{ 5 % 3 }}{{ none }}{{ true }} {{ [1, 2] + [3] }} {{ 'x' ~ 1 }} {{ missing | default('d') }} {{ 'A b'.lower() | upper }} {{ 'a' in ['a'] and 'q' not in 'abc' }}"""
M={'plain':[{"role":"user","content":" Hi \"there\" "}],
'turns':[{"role":"user","content":"One"},{"role":"assistant","content":"<think>a</think>\n\nTwo "},{"role":"user","content":"Three é"}],
'system':[{"role":"system","content":"Be  brief."},{"role":"user","content":"Hello\n"}]}


def raise_exception(why):
    raise jinja2.TemplateError(why)


env=ImmutableSandboxedEnvironment(trim_blocks=True,lstrip_blocks=True)
env.filters['tojson']=lambda x,**k: json.dumps(x,ensure_ascii=False)
env.globals['raise_exception']=raise_exception
# Expressions, each rendered with the messages `wide`. unit/test_template.c has the inputs that Jinja rejects.
M['wide']=[{"role":"user","content":" Hé 漢字😀ß ","n":3,"x":0.1,"l":["a","é",1,None,True,1.5,"it's",'"']},{"role":"assistant","content":"b\nΣΑΣ\u00a0"}]
C='messages[0].content'
E=[f"{C}[:2] ~ '|' ~ {C}[1:] ~ '|' ~ {C}.strip('é ') ~ '|' ~ {C}[0] ~ {C}[2] ~ '|' ~ (1 == true) ~ '|' ~ {C}|upper",
f"{C}[::-1]", f"{C}[4:1:-1]", f"{C}[-3:-1]", f"{C}[::2] ~ {C}[9:-9:-2]", f"{C}[100:] ~ {C}[:-100]", f"{C}[-1] is defined", f"{C}[99] is defined",
f"{C}|length", f"{C}|reverse", f"{C}|list", f"{C}|first ~ {C}|last", f"{C}|trim|length", f"{C}.split()", f"{C}.split(none, 1)", f"{C}.split('字')", f"{C}.split(' ', 1)",
"messages[1].content|trim", "messages[1].content.strip()|length", "messages[1].content|lower", "messages[1].content.upper()", "messages[1].content[1]", "'ΑΣ ΑΣ.'.lower()",
"'ßa ŉ ǆ ﬁ éa'.title()", "'ßa ŉ-ǆ (ﬁ) éa'|title", "'ÉÀ ß'|capitalize", "'ﬁx'.capitalize()", "'İı'|lower", "'straße'|upper", "'x'|upper ~ none|upper ~ 5|string",
f"{C}|replace('漢', 'ab')", f"{C}.replace('', '-')", f"{C}.replace('é', '', 1)", "'aaa'.replace('a', 'bé', 2)", "'a-b'|replace('-', 1)", "'éa'.startswith('é') ~ 'aé'.endswith('é') ~ 'a'.startswith('ab')",
f"'é' in {C}", f"'e' not in {C}", "'' in 'a'", "1 in [true]", "true in [1.0]", "'a' in messages[0].l", "none in messages[0].l", "'role' in messages[0]",
"1 == true ~ ''", "1 == true", "1 == 1.0", "true == 'true'", "none == false", "[1, 'a'] == [true, 'a']", "1 != true", "missing == other", "missing == none", "'a' < 'b'", "'é' > 'z'", "'a' <= 'ab'", "1 < 1.5", "true < 2", "1 < 2 < 3", "3 > 2 > 2", "1 == 1 != 2",
"7 // 2 ~ ' ' ~ -7 // 2 ~ ' ' ~ 7 // -2", "7 % -3 ~ ' ' ~ -7 % 3 ~ ' ' ~ -7 % -3", "7 / 2", "6 / 2", "-7.5 // 2", "-7.5 % 2", "1 + 5 % 3", "2 * 3 + 4 * 5", "10 - 2 - 3", "2 - -3", "--2", "1 + true", "-true",
"9223372036854775807 - 1", "-9223372036854775807 - 1", "4611686018427387904 + 4611686018427387903", "1e3", "0.1 + 0.2", "1e16", "123456789.0 * 10", "1e-5", "1e22", "messages[0].x", "2.50", "1.0 * 3",
"'ab' * 3", "'ab' * 0 ~ 'é' * -1", "3 * 'é'", "[1, 'a'] * 2", "[1] + ['é']", "['it\\'s', '\"', '\\'\"', '\\n', '\\u00a0', '\\u200b']", "[none, true, 1.5, [], 'é']", "messages[0].l|tojson", f"{C}|tojson", "'\\x07\\x1f\\\\'|tojson", "messages[1]",
"'\\u00e9\\x41\\t\\d\\\\'", "\"it's\"", "['a', 'é', 1]|join('、')", "', '.join(['a', 'é'])", "'abc'|join('-')", "[3, 1]|reverse|list", "'abc'|list|length", "missing|length", "missing|upper ~ 'x'", "missing|default('d')", "''|default('d')", "''|default('d', true)", "0|d('d', boolean=true)", "none|default('d')", "none|trim",
"messages[0].nothing is defined", "messages[0]['role']", "messages[-1].role", "messages[5] is defined", "tools is none", "documents is defined", "1.5 is number ~ true is number ~ true is integer ~ 1 is integer ~ 1.0 is float", "missing is iterable", "'a' if missing else raise_exception('no')", "raise_exception('no') if missing else 'a'", "(1 / 0) if false else 2", "(1 if true) ~ (1 if false)", "not 1 == 2", "-3|string ~ 'x'", "0.0 or 'zero'", "not 0.0", "[1,2,3,4][1:-1]", "[1,2,3,4][::-2]", "[1,2,3][5:1:-1]", "messages[0].get('n', 2) ~ messages[0].get('m', 2) ~ messages[0].get('m')"]
for i,e in enumerate(E): T['e%d'%i]='{{ '+e+' }}'
F={'tail':"{{ 'a' }}\n\n",'returns':"a\r\nb\rc{{ 1 }}\r\n",'letters':"{% for c in messages[0].content %}{{ loop.index }}{{ c }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }},{% endfor %}",
'keys':"{% for k in messages[1] %}{{ k }},{% endfor %}{% for k in missing %}x{% endfor %}"}
T.update(F)
own=set(T)-set('chatml llama3 mistral gemma qwen zephyr mixed'.split())
out=[]
for n,t in T.items():
    for k,m in M.items():
        if (n in own) != (k == 'wide'): continue
        try:
            r = env.from_string(t).render(messages=m,tools=None,documents=None,add_generation_prompt=True,bos_token='<s>',eos_token='</s>')
        except jinja2.TemplateError as error:
            r = '!' + str(error)
        out.append([n,k,r])
json.dump({"templates":T,"messages":M,"expected":out},open('templates.json', 'w'),indent=1,ensure_ascii=False)
