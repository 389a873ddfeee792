# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
import collections
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbGroupDetails(KaitaiStruct):
    """The payload of a details file: the members that one session added to a group,
    removed from it, or found in it.
    
    Where the newest file has version 1, it alone tells the members. Where it has
    version 2, all files count in the order of their first timestamps, and of one
    key the last entry. The key of a member is its name, or else its URI.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/group.md
    """
    SEQ_FIELDS = ["version", "num_members", "members"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbGroupDetails, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['version']['start'] = self._io.pos()
        self.version = self._io.read_u4le()
        self._debug['version']['end'] = self._io.pos()
        if not self.version >= 1:
            raise kaitaistruct.ValidationLessThanError(1, self.version, self._io, u"/seq/0")
        if not self.version <= 2:
            raise kaitaistruct.ValidationGreaterThanError(2, self.version, self._io, u"/seq/0")
        self._debug['num_members']['start'] = self._io.pos()
        self.num_members = self._io.read_u8le()
        self._debug['num_members']['end'] = self._io.pos()
        if not self.num_members <= (self._io.size() - self._io.pos()) // 15:
            raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 15, self.num_members, self._io, u"/seq/1")
        self._debug['members']['start'] = self._io.pos()
        self._debug['members']['arr'] = []
        self.members = []
        for i in range(self.num_members):
            self._debug['members']['arr'].append({'start': self._io.pos()})
            _t_members = TiledbGroupDetails.GroupMember(self._io, self, self._root)
            try:
                _t_members._read()
            finally:
                self.members.append(_t_members)
            self._debug['members']['arr'][i]['end'] = self._io.pos()

        self._debug['members']['end'] = self._io.pos()


    def _fetch_instances(self):
        pass
        for i in range(len(self.members)):
            pass
            self.members[i]._fetch_instances()


    class GroupMember(KaitaiStruct):
        """An array or a group that was added or removed.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/group.md#group-member
        """

        class ObjectTypes(IntEnum):
            invalid = 0
            group = 1
            array = 2
        SEQ_FIELDS = ["version", "object_type", "relative", "len_uri", "uri", "named", "len_name", "name", "deletion"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbGroupDetails.GroupMember, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['version']['start'] = self._io.pos()
            self.version = self._io.read_u4le()
            self._debug['version']['end'] = self._io.pos()
            if not self.version >= 1:
                raise kaitaistruct.ValidationLessThanError(1, self.version, self._io, u"/types/group_member/seq/0")
            if not self.version <= 2:
                raise kaitaistruct.ValidationGreaterThanError(2, self.version, self._io, u"/types/group_member/seq/0")
            self._debug['object_type']['start'] = self._io.pos()
            self.object_type = KaitaiStream.resolve_enum(TiledbGroupDetails.GroupMember.ObjectTypes, self._io.read_u1())
            self._debug['object_type']['end'] = self._io.pos()
            if not isinstance(self.object_type, TiledbGroupDetails.GroupMember.ObjectTypes):
                raise kaitaistruct.ValidationNotInEnumError(self.object_type, self._io, u"/types/group_member/seq/1")
            self._debug['relative']['start'] = self._io.pos()
            self.relative = self._io.read_u1()
            self._debug['relative']['end'] = self._io.pos()
            self._debug['len_uri']['start'] = self._io.pos()
            self.len_uri = self._io.read_u8le()
            self._debug['len_uri']['end'] = self._io.pos()
            if not self.len_uri <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_uri, self._io, u"/types/group_member/seq/3")
            self._debug['uri']['start'] = self._io.pos()
            self.uri = (self._io.read_bytes(self.len_uri)).decode(u"UTF-8")
            self._debug['uri']['end'] = self._io.pos()
            self._debug['named']['start'] = self._io.pos()
            self.named = self._io.read_u1()
            self._debug['named']['end'] = self._io.pos()
            if self.is_named:
                pass
                self._debug['len_name']['start'] = self._io.pos()
                self.len_name = self._io.read_u8le()
                self._debug['len_name']['end'] = self._io.pos()
                if not self.len_name <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/group_member/seq/6")

            if self.is_named:
                pass
                self._debug['name']['start'] = self._io.pos()
                self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
                self._debug['name']['end'] = self._io.pos()

            if self.version >= 2:
                pass
                self._debug['deletion']['start'] = self._io.pos()
                self.deletion = self._io.read_u1()
                self._debug['deletion']['end'] = self._io.pos()



        def _fetch_instances(self):
            pass
            if self.is_named:
                pass

            if self.is_named:
                pass

            if self.version >= 2:
                pass


        @property
        def is_deletion(self):
            if hasattr(self, '_m_is_deletion'):
                return self._m_is_deletion

            self._m_is_deletion = (self.deletion != 0 if self.version >= 2 else False)
            return getattr(self, '_m_is_deletion', None)

        @property
        def is_named(self):
            if hasattr(self, '_m_is_named'):
                return self._m_is_named

            self._m_is_named = self.named != 0
            return getattr(self, '_m_is_named', None)

        @property
        def is_relative(self):
            if hasattr(self, '_m_is_relative'):
                return self._m_is_relative

            self._m_is_relative = self.relative != 0
            return getattr(self, '_m_is_relative', None)



