# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_operand
from enum import IntEnum
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbCondition(KaitaiStruct):
    """The payload of a delete commit's tile: a tree of comparisons, joined by AND,
    OR and NOT.
    
    What is stored is the NEGATION of what was asked: the rows that satisfy it
    stay as they are. "delete where a < 3" is on disk as "a >= 3".
    
    Trees of more than 250 levels are refused. The Web IDE's own recursion gives
    out near 300.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    """

    class CombinationOps(IntEnum):
        and_op = 0
        or_op = 1
        not_op = 2

    class NodeTypes(IntEnum):
        expression = 0
        value = 1

    class Ops(IntEnum):
        lt = 0
        le = 1
        gt = 2
        ge = 3
        eq = 4
        ne = 5
        in_set = 6
        not_in_set = 7
        always_true = 253
        always_false = 254
    SEQ_FIELDS = ["root", "trailing"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbCondition, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['root']['start'] = self._io.pos()
        self.root = TiledbCondition.ConditionNode(1, self._io, self, self._root)
        self.root._read()
        self._debug['root']['end'] = self._io.pos()
        self._debug['trailing']['start'] = self._io.pos()
        self.trailing = self._io.read_bytes_full()
        self._debug['trailing']['end'] = self._io.pos()
        if not self.trailing == b"":
            raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/seq/1")


    def _fetch_instances(self):
        pass
        self.root._fetch_instances()

    class ConditionNode(KaitaiStruct):
        """A comparison, or an expression over the nodes that follow it. The children
        lie here and not in the expression, so that a level of the tree costs a
        parser half the calls.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["node_type", "body", "children"]
        def __init__(self, level, _io, _parent=None, _root=None):
            super(TiledbCondition.ConditionNode, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.level = level
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['node_type']['start'] = self._io.pos()
            self.node_type = KaitaiStream.resolve_enum(TiledbCondition.NodeTypes, self._io.read_u1())
            self._debug['node_type']['end'] = self._io.pos()
            if not isinstance(self.node_type, TiledbCondition.NodeTypes):
                raise kaitaistruct.ValidationNotInEnumError(self.node_type, self._io, u"/types/condition_node/seq/0")
            self._debug['body']['start'] = self._io.pos()
            _on = self.node_type
            if _on == TiledbCondition.NodeTypes.expression:
                pass
                self.body = TiledbCondition.ExpressionHead(self.level, self._io, self, self._root)
                self.body._read()
            elif _on == TiledbCondition.NodeTypes.value:
                pass
                self.body = TiledbCondition.ValueNode(self._io, self, self._root)
                self.body._read()
            self._debug['body']['end'] = self._io.pos()
            self._debug['children']['start'] = self._io.pos()
            self._debug['children']['arr'] = []
            self.children = []
            for i in range(self.num_children):
                self._debug['children']['arr'].append({'start': self._io.pos()})
                _t_children = TiledbCondition.ConditionNode(self.level + 1, self._io, self, self._root)
                try:
                    _t_children._read()
                finally:
                    self.children.append(_t_children)
                self._debug['children']['arr'][i]['end'] = self._io.pos()

            self._debug['children']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass
            _on = self.node_type
            if _on == TiledbCondition.NodeTypes.expression:
                pass
                self.body._fetch_instances()
            elif _on == TiledbCondition.NodeTypes.value:
                pass
                self.body._fetch_instances()
            for i in range(len(self.children)):
                pass
                self.children[i]._fetch_instances()


        @property
        def num_children(self):
            if hasattr(self, '_m_num_children'):
                return self._m_num_children

            self._m_num_children = (self.body.num_children if self.node_type == TiledbCondition.NodeTypes.expression else 0)
            return getattr(self, '_m_num_children', None)


    class ExpressionHead(KaitaiStruct):
        """How the children are combined. The engine writes AND and OR; NOT, which
        the format allows, has one child.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["combination_op", "num_children"]
        def __init__(self, level, _io, _parent=None, _root=None):
            super(TiledbCondition.ExpressionHead, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.level = level
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['combination_op']['start'] = self._io.pos()
            self.combination_op = KaitaiStream.resolve_enum(TiledbCondition.CombinationOps, self._io.read_u1())
            self._debug['combination_op']['end'] = self._io.pos()
            if not isinstance(self.combination_op, TiledbCondition.CombinationOps):
                raise kaitaistruct.ValidationNotInEnumError(self.combination_op, self._io, u"/types/expression_head/seq/0")
            self._debug['num_children']['start'] = self._io.pos()
            self.num_children = self._io.read_u8le()
            self._debug['num_children']['end'] = self._io.pos()
            if not self.num_children >= (1 if self.combination_op == TiledbCondition.CombinationOps.not_op else 0):
                raise kaitaistruct.ValidationLessThanError((1 if self.combination_op == TiledbCondition.CombinationOps.not_op else 0), self.num_children, self._io, u"/types/expression_head/seq/1")
            if not self.num_children <= (0 if self.level >= 250 else (1 if self.combination_op == TiledbCondition.CombinationOps.not_op else (self._io.size() - self._io.pos()) // 10)):
                raise kaitaistruct.ValidationGreaterThanError((0 if self.level >= 250 else (1 if self.combination_op == TiledbCondition.CombinationOps.not_op else (self._io.size() - self._io.pos()) // 10)), self.num_children, self._io, u"/types/expression_head/seq/1")


        def _fetch_instances(self):
            pass

        @property
        def symbol(self):
            if hasattr(self, '_m_symbol'):
                return self._m_symbol

            self._m_symbol = (u"and" if self.combination_op == TiledbCondition.CombinationOps.and_op else (u"or" if self.combination_op == TiledbCondition.CombinationOps.or_op else u"not"))
            return getattr(self, '_m_symbol', None)


    class MemberOffsets(KaitaiStruct):
        """Where each member of IN or NOT_IN starts in the value.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/sm/query/deletes_and_updates/serialization.cc
        """
        SEQ_FIELDS = ["len_ofs_members", "ofs_members"]
        def __init__(self, len_value, _io, _parent=None, _root=None):
            super(TiledbCondition.MemberOffsets, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.len_value = len_value
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['len_ofs_members']['start'] = self._io.pos()
            self.len_ofs_members = self._io.read_u8le()
            self._debug['len_ofs_members']['end'] = self._io.pos()
            _ = self.len_ofs_members
            if not  ((_ % 8 == 0) and (_ <= self._io.size() - self._io.pos())) :
                raise kaitaistruct.ValidationExprError(self.len_ofs_members, self._io, u"/types/member_offsets/seq/0")
            self._debug['ofs_members']['start'] = self._io.pos()
            self._debug['ofs_members']['arr'] = []
            self.ofs_members = []
            for i in range(self.len_ofs_members // 8):
                self._debug['ofs_members']['arr'].append({'start': self._io.pos()})
                self.ofs_members.append(self._io.read_u8le())
                self._debug['ofs_members']['arr'][i]['end'] = self._io.pos()
                _ = self.ofs_members[i]
                if not  ((_ <= self.len_value) and ( ((i == 0) or (_ >= self.ofs_members[i - 1])) )) :
                    raise kaitaistruct.ValidationExprError(self.ofs_members[i], self._io, u"/types/member_offsets/seq/1")

            self._debug['ofs_members']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass
            for i in range(len(self.ofs_members)):
                pass



    class ValueNode(KaitaiStruct):
        """One comparison of a field with a value.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["op", "len_field_name", "field_name", "len_value", "value", "members"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbCondition.ValueNode, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['op']['start'] = self._io.pos()
            self.op = KaitaiStream.resolve_enum(TiledbCondition.Ops, self._io.read_u1())
            self._debug['op']['end'] = self._io.pos()
            if not isinstance(self.op, TiledbCondition.Ops):
                raise kaitaistruct.ValidationNotInEnumError(self.op, self._io, u"/types/value_node/seq/0")
            self._debug['len_field_name']['start'] = self._io.pos()
            self.len_field_name = self._io.read_u4le()
            self._debug['len_field_name']['end'] = self._io.pos()
            if not self.len_field_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_field_name, self._io, u"/types/value_node/seq/1")
            self._debug['field_name']['start'] = self._io.pos()
            self.field_name = (self._io.read_bytes(self.len_field_name)).decode(u"UTF-8")
            self._debug['field_name']['end'] = self._io.pos()
            self._debug['len_value']['start'] = self._io.pos()
            self.len_value = self._io.read_u8le()
            self._debug['len_value']['end'] = self._io.pos()
            if not self.len_value <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_value, self._io, u"/types/value_node/seq/3")
            self._debug['value']['start'] = self._io.pos()
            self._raw_value = self._io.read_bytes(self.len_value)
            _io__raw_value = KaitaiStream(BytesIO(self._raw_value))
            self.value = tiledb_operand.TiledbOperand(_io__raw_value)
            self.value._read()
            self._debug['value']['end'] = self._io.pos()
            if  ((self.op == TiledbCondition.Ops.in_set) or (self.op == TiledbCondition.Ops.not_in_set)) :
                pass
                self._debug['members']['start'] = self._io.pos()
                self.members = TiledbCondition.MemberOffsets(self.len_value, self._io, self, self._root)
                self.members._read()
                self._debug['members']['end'] = self._io.pos()



        def _fetch_instances(self):
            pass
            self.value._fetch_instances()
            if  ((self.op == TiledbCondition.Ops.in_set) or (self.op == TiledbCondition.Ops.not_in_set)) :
                pass
                self.members._fetch_instances()


        @property
        def symbol(self):
            if hasattr(self, '_m_symbol'):
                return self._m_symbol

            self._m_symbol = (u"<" if self.op == TiledbCondition.Ops.lt else (u"<=" if self.op == TiledbCondition.Ops.le else (u">" if self.op == TiledbCondition.Ops.gt else (u">=" if self.op == TiledbCondition.Ops.ge else (u"==" if self.op == TiledbCondition.Ops.eq else (u"!=" if self.op == TiledbCondition.Ops.ne else (u"in" if self.op == TiledbCondition.Ops.in_set else (u"not in" if self.op == TiledbCondition.Ops.not_in_set else (u"always true" if self.op == TiledbCondition.Ops.always_true else u"always false")))))))))
            return getattr(self, '_m_symbol', None)



